// pages_man.c - firm.1 in the macros of man(7).
#include <string.h>

#include "cli/pages.h"

// Text as it is: no backslash, hyphen or first character of a line means anything.
static void put(const char* text, FILE* to) {
    for (const char* p = text; *p; p++) {
        if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n')) fputs("\\&", to);
        if (*p == '\\')
            fputs("\\e", to);
        else if (*p == '-')
            fputs("\\-", to);
        else
            fputc(*p, to);
    }
}

static void option(const arg_option* o, FILE* to) {
    fputs(".TP\n", to);
    fputs("\\fB", to);
    if (o->letter) fprintf(to, "\\-%c\\fR, \\fB", o->letter);
    put("--", to);
    put(o->name, to);
    fputs("\\fR", to);
    if (o->type != ARG_SWITCH) {
        fputs(" \\fI", to);
        put(o->type == ARG_CHOICE ? o->choices : o->hint ? o->hint : "VALUE", to);
        fputs("\\fR", to);
    }
    fputc('\n', to);
    put(o->help, to);
    if (o->type == ARG_INT) fprintf(to, " (%.0f to %.0f)", o->min, o->max);
    if (o->type == ARG_REAL) fprintf(to, " (%g to %g)", o->min, o->max);
    if (o->value) {
        fputs(" [", to);
        put(o->value, to);
        fputc(']', to);
    }
    fputc('\n', to);
}

static void command(const cli_command* c, FILE* to) {
    fprintf(to, ".SS firm %s\n", c->name);
    put(c->summary, to);
    fputs(".\n.PP\n.nf\nfirm ", to);
    put(c->usage, to);
    fputs("\n", to);
    if (c->more[0]) {
        fputs("\n", to);
        put(c->more, to);
    }
    fputs(".fi\n", to);
    for (int i = 0; i < c->option_count; i++) option(&c->options[i], to);
}

void pages_man(pages_commands all, FILE* to) {
    int v = firm_version();
    fprintf(to, ".TH FIRM 1 \"\" \"firm %d.%d.%d\" \"User Commands\"\n", v / 10000, v / 100 % 100,
            v % 100);
    fputs(
        ".SH NAME\nfirm \\- a compact pixel world model: goal image in, actions out\n"
        ".SH SYNOPSIS\n\\fBfirm\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]\n.br\n"
        "\\fBfirm help\\fR [\\fICOMMAND\\fR|\\fBsettings\\fR]\n.br\n"
        "\\fBfirm \\-\\-version\\fR\n"
        ".SH COMMANDS\n",
        to);
    for (int i = 0; i < all.count; i++) command(all.command[i], to);
    fputs(".SH OPTIONS OF EVERY COMMAND\n", to);
    for (int i = 0; i < args_common_count; i++) option(&args_common[i], to);
    fputs(
        ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nran, but a gate or check failed\n"
        ".TP\n2\nbad usage or bad input\n.TP\n128 + N\nstopped by signal N\n"
        ".SH ENVIRONMENT\n.TP\nFIRM_SIMD\nthe instruction set of the CPU's loops: plain, neon, "
        "avx2, avx512, avx512bf16 or amx; else the best there is\n"
        ".TP\nFIRM_RENDERER\nhow MuJoCo's scenes are drawn: native or gl\n"
        ".TP\nFIRM_MODELS_DIR\na folder with MuJoCo's scenes\n",
        to);
}
