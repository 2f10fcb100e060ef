// pages.h - the man page and the shells' completion, written from the tables of the commands when
// the program is built: firm --man, firm --completion bash|zsh.
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include "cli/cli.h"

typedef struct pages_commands {
    const cli_command* const* command;
    int count;
} pages_commands;

void pages_man(pages_commands all, FILE* to);
void pages_bash(pages_commands all, FILE* to);
void pages_zsh(pages_commands all, FILE* to);

#endif
