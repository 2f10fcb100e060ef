// pages_shell.c - what bash and zsh offer after `firm`: commands, tasks, flags and the values of
// flags that have a choice.
#include <string.h>

#include "cli/pages.h"

typedef void (*option_fn)(const arg_option* o, FILE* to);

// the command's own options, then the common ones that it does not declare again
static void each_option(const cli_command* c, option_fn fn, FILE* to) {
    for (int i = 0; i < c->option_count; i++) fn(&c->options[i], to);
    for (int i = 0; i < args_common_count; i++) {
        int own = 0;
        for (int k = 0; k < c->option_count; k++)
            own |= strcmp(c->options[k].name, args_common[i].name) == 0;
        if (!own) fn(&args_common[i], to);
    }
}

static void put_tasks(FILE* to) {
    for (int i = 0; env_at(i); i++) fprintf(to, "%s%s", i ? " " : "", env_at(i)->task.name);
}

// "a|b|c" as words
static void put_choices(const char* choices, FILE* to) {
    for (; *choices; choices++) fputc(*choices == '|' ? ' ' : *choices, to);
}

static int takes_task(const cli_command* c) {
    return strstr(c->usage, "TASK") != NULL;
}

// "plan|train|env|render" of "bench plan|train|env|render [TASK]"; empty where there is no choice
static void parts_of(const cli_command* c, char* out, size_t room) {
    const char* first = strchr(c->usage, ' ');
    size_t n = first ? strspn(first + 1, "abcdefghijklmnopqrstuvwxyz|") : 0;
    if (n >= room || n == 0 || first[1 + n] != ' ' || !memchr(first + 1, '|', n)) n = 0;
    if (n) memcpy(out, first + 1, n);
    out[n] = 0;
}

// ---- bash ---------------------------------------------------------------------------------------

static void bash_flag(const arg_option* o, FILE* to) {
    if (o->letter) fprintf(to, " -%c", o->letter);
    fprintf(to, " --%s", o->name);
}

static void bash_choice(const arg_option* o, FILE* to) {
    if (o->type != ARG_CHOICE) return;
    fprintf(to, "        --%s) words='", o->name);
    put_choices(o->choices, to);
    fputs("' ;;\n", to);
}

void pages_bash(pages_commands all, FILE* to) {
    fputs(
        "# bash completion for firm, written by firm --completion bash\n"
        "_firm() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    local commands='",
        to);
    for (int i = 0; i < all.count; i++) fprintf(to, "%s ", all.command[i]->name);
    fputs(
        "help' flags= words=\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n"
        "        return\n"
        "    fi\n"
        "    case ${COMP_WORDS[1]} in\n"
        "    help) words=\"$commands settings\" ;;\n",
        to);
    for (int i = 0; i < all.count; i++) {
        const cli_command* c = all.command[i];
        char parts[100];
        parts_of(c, parts, sizeof parts);
        fprintf(to, "    %s)\n        flags='", c->name);
        each_option(c, bash_flag, to);
        fputs("'\n        words='", to);
        put_choices(parts, to);
        if (parts[0]) fputc(' ', to);
        if (takes_task(c)) put_tasks(to);
        fputs("'\n        case $prev in\n", to);
        each_option(c, bash_choice, to);
        fputs("        esac\n        ;;\n", to);
    }
    fputs(
        "    esac\n"
        "    case $cur in\n"
        "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")) ;;\n"
        "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
        "    esac\n"
        "}\n"
        "complete -o default -F _firm firm\n",
        to);
}

// ---- zsh ----------------------------------------------------------------------------------------

// inside single quotes and the brackets or colons of a specification
static void zsh_text(const char* text, FILE* to) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", to);
            continue;
        }
        if (strchr("[]:\\", *text)) fputc('\\', to);
        fputc(*text, to);
    }
}

static void zsh_flag(const arg_option* o, FILE* to) {
    fputs("            ", to);
    if (o->letter)
        fprintf(to, "'(-%c --%s)'{-%c,--%s}'", o->letter, o->name, o->letter, o->name);
    else
        fprintf(to, "'%s--%s", o->type == ARG_LIST ? "*" : "", o->name);
    fputc('[', to);
    zsh_text(o->help, to);
    fputc(']', to);
    if (o->type != ARG_SWITCH) {
        fputc(':', to);
        zsh_text(o->hint ? o->hint : o->name, to);
        fputc(':', to);
    }
    if (o->type == ARG_CHOICE) {
        fputc('(', to);
        put_choices(o->choices, to);
        fputc(')', to);
    }
    if (o->type == ARG_TEXT || o->type == ARG_OUTPUT || o->type == ARG_SEVERAL) fputs("_files", to);
    fputs("' \\\n", to);
}

void pages_zsh(pages_commands all, FILE* to) {
    fputs(
        "#compdef firm\n# zsh completion for firm, written by firm --completion zsh\n"
        "_firm() {\n    local -a commands\n    commands=(\n",
        to);
    for (int i = 0; i < all.count; i++) {
        fprintf(to, "        '%s:", all.command[i]->name);
        zsh_text(all.command[i]->summary, to);
        fputs("'\n", to);
    }
    fputs(
        "        'help:options of a command'\n    )\n"
        "    if (( CURRENT == 2 )); then\n"
        "        _describe command commands\n"
        "        _arguments '--help[list the commands]' '--version[print the version]'\n"
        "        return\n    fi\n"
        "    local command=$words[2]\n"
        "    shift words\n    (( CURRENT-- ))\n"
        "    case $command in\n"
        "    help) _describe command commands ;;\n",
        to);
    for (int i = 0; i < all.count; i++) {
        const cli_command* c = all.command[i];
        char parts[100];
        parts_of(c, parts, sizeof parts);
        fprintf(to, "    %s)\n        _arguments \\\n", c->name);
        each_option(c, zsh_flag, to);
        if (parts[0]) {
            fputs("            '1:part:(", to);
            put_choices(parts, to);
            fputs(")' \\\n", to);
        }
        if (takes_task(c)) {
            fprintf(to, "            '%d:task:(", parts[0] ? 2 : 1);
            put_tasks(to);
            fputs(")' \\\n", to);
        }
        fputs("            '*:file:_files'\n        ;;\n", to);
    }
    fputs("    esac\n}\n_firm \"$@\"\n", to);
}
