// usage_test.c - flags, help and suggestions; the option parser by itself.
#include "cli/args.c"  // the parser belongs to the program, not to the library
#include "program.h"

// The longest line of the options in a command's help.
static int widest_option(const char* text) {
    int most = 0;
    for (const char* line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        int n = (int)strcspn(line, "\n");
        if ((strncmp(line, "  -", 3) == 0 || strncmp(line, "      ", 6) == 0) &&
            strncmp(line, "       firm ", 12) != 0 && n > most)
            most = n;
    }
    return most;
}

TEST(cli, help_and_version) {
    const outcome* o = firm_run("/", 0, "--version");
    EXPECT_INT(o->code, 0);
    char first[32];
    snprintf(first, sizeof first, "firm %d.%d.%d\ncommit ", FIRM_VERSION / 10000,
             FIRM_VERSION / 100 % 100, FIRM_VERSION % 100);
    EXPECT(strncmp(o->out, first, strlen(first)) == 0);
    EXPECT(strstr(o->out, "\nbuild ") != NULL);
    o = firm_run("/", 0, "--help");
    EXPECT_INT(o->code, 0);
    static const char* const commands[] = {
        "tasks",  "collect", "intervene", "audit",     "train",  "plan",     "eval",   "params",
        "report", "bench",   "demo",      "reproduce", "export", "describe", "trials", "rows"};
    static outcome listing, again;
    listing = *o;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        EXPECT(strstr(listing.out, commands[i]) != NULL);
        o = firm_run("/", 0, "%s --help", commands[i]);
        EXPECT_INT(o->code, 0);
        EXPECT(strstr(o->out, "--json") != NULL && !o->err[0]);
        EXPECT(widest_option(o->out) > 60 && widest_option(o->out) <= 80);
        again = *o;
        o = firm_run("/", 0, "help %s", commands[i]);
        EXPECT_TEXT(o->out, again.out);
    }
    o = firm_run("/", 0, "help settings");
    EXPECT_INT(o->code, 0);
    EXPECT(strstr(o->out, "contract_candidates") != NULL);
}

TEST(cli, wrong_usage) {
    const outcome* o = firm_run("/", 0, "colect tworoom");
    EXPECT_INT(o->code, 2);
    EXPECT(strstr(o->err, "did you mean 'collect'") != NULL);
    EXPECT_REFUSAL(firm_run("/", 0, "collect tworoom --episode 5"), "collect",
                   "did you mean --episodes");
    EXPECT_REFUSAL(firm_run("/", 0, "collect tworom -o x.h5"), "collect", "tworoom");
    EXPECT_REFUSAL(firm_run("/", 0, "collect tworoom"), "collect", "--output is missing");
    EXPECT_REFUSAL(firm_run("/", 0, "collect -o x.h5"), "collect", "argument is missing");
    EXPECT_REFUSAL(firm_run("/", 0, "collect tworoom more -o x.h5"), "collect", "'more'");
    EXPECT_REFUSAL(firm_run("/", 0, "collect tworoom -o"), "collect", "needs a value");
    EXPECT_REFUSAL(firm_run("/", 0, "collect tworoom -o a -o b"), "collect", "twice");
    EXPECT_REFUSAL(firm_run("/", 0, "eval tworoom --mode fast"), "eval", "contract|reach");
    EXPECT_REFUSAL(firm_run("/", 0, "eval tworoom --arms nobody --quiet"), "eval",
                   "oracle-dynamics");
    EXPECT_REFUSAL(firm_run("/", 0, "eval tworoom --model nowhere.safetensors --quiet"), "eval",
                   "nowhere.safetensors");
    EXPECT_REFUSAL(firm_run("/", 0, "eval tworoom --traces 3"), "eval", "-o FILE");
    EXPECT_REFUSAL(firm_run("/", 0, "bench speed"), "bench", "plan, train, env or render");
#ifndef FIRM_CUDA
    EXPECT_REFUSAL(firm_run("/", 0, "train tworoom --data a --branches b -o c --device cuda"),
                   "train", "run make cuda and use build-cuda/firm, or --device cpu");
    EXPECT_REFUSAL(firm_run("/", 0, "bench train tworoom --device cuda"), "bench", "--device cpu");
#endif
    EXPECT_REFUSAL(firm_run("/", 0, "train tworoom --data a -o c"), "train", "--branches");
}

TEST(cli, counts_out_of_range) {
    static const struct {
        const char *command, *line, *says;
    } cases[] = {
        {"collect", "collect tworoom -o x.h5 --episodes -5", "whole number from 1"},
        {"collect", "collect tworoom -o x.h5 --episodes=0", "whole number from 1"},
        {"collect", "collect tworoom -o x.h5 --episodes 1e3", "whole number"},
        {"collect", "collect tworoom -o x.h5 --episodes 99999999999999999999", "whole number"},
        {"collect", "collect tworoom -o x.h5 --seed -1", "whole number from 0"},
        {"collect", "collect tworoom -o x.h5 --threads -2", "whole number from 0"},
        {"intervene", "intervene tworoom --data f.h5 -o x.h5 --anchors -1", "whole number from 1"},
        {"intervene", "intervene tworoom --data f.h5 -o x.h5 --branches 0", "whole number from 1"},
        {"collect", "collect tworoom -o x.h5 --episodes 10000001", "from 1 to 10000000"},
        {"collect", "collect tworoom -o x.h5 --threads 1025", "from 0 to 1024"},
        {"collect", "collect tworoom -o x.h5 --seed 9007199254740993", "to 9007199254740992"},
        {"eval", "eval tworoom --trials -100", "whole number from 1"},
        {"eval", "eval tworoom --offset 2.5", "whole number from 1"},
        {"eval", "eval tworoom --deadline-ms -3", "number from 0"},
        {"eval", "eval tworoom --deadline-ms nan", "number from 0"},
        {"export", "export m.safetensors -o x --recorded p.h5 --episodes f.h5", "not both"},
        {"reproduce", "reproduce --seeds 1,-2", "whole numbers"},
        {"reproduce", "reproduce --tasks tworoom --plus", "TASK-plus"},
    };
    char folder[512];
    fresh_folder(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EXPECT_REFUSAL(firm_run(folder, 0, "%s", cases[i].line), cases[i].command, cases[i].says);
    EXPECT_INT(folder_entries(folder, NULL, 0), 0);
}

TEST(cli, settings_are_checked) {
    char folder[512];
    fresh_folder(folder);
    static const char unknown[] = "[plan]\ncontract_candidates = 100\ncontract_candidate = 3\n";
    static const char wild[] = "[plan]\ncontract_candidates = -100\n";
    put_file(folder, "unknown.ini", unknown, sizeof unknown - 1);
    put_file(folder, "wild.ini", wild, sizeof wild - 1);
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --arms random --config unknown.ini"), "eval",
                   "contract_candidate");
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --arms random --config wild.ini"), "eval",
                   "contract_candidates");
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --arms random --config absent.ini"), "eval",
                   "absent.ini");
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --arms random --set plan.nothing=1"), "eval",
                   "nothing");
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --arms random --set nonsense"), "eval",
                   "nonsense");
    EXPECT_REFUSAL(firm_run(folder, 0, "params --set model.hidden=lots"), "params", "hidden");
    EXPECT_INT(folder_entries(folder, NULL, 0), 2);
}

static const arg_option table[] = {
    {"count", 'n', ARG_INT, -10, 10, "3", NULL, "N", "a count"},
    {"share", 0, ARG_REAL, -1, 1, NULL, NULL, "X", "a share"},
    {"files", 0, ARG_SEVERAL, 0, 0, NULL, NULL, "F", "some files"},
    {"moves", 0, ARG_TEXT, 0, 0, NULL, NULL, "M", "text"},
};

TEST(cli, parser_reads_all_forms) {
    firm_error err;
    args a;
    char* line[] = {"first",       "-n",      "-4",         "--share=-0.5", "--files",
                    "a",           "b",       "c",          "--set",        "x.y=1",
                    "--set=z.w=2", "--moves", "-1,0;0.5,1", "second",       "--json"};
    REQUIRE_OK(args_parse(&a, "test", "test", table, 4, 1, 2, 15, line, &err), err);
    EXPECT_INT(args_int(&a, "count"), -4);
    EXPECT_NEAR(args_real(&a, "share"), -0.5, 0);
    EXPECT_TEXT(args_text(&a, "moves"), "-1,0;0.5,1");
    const char* list[ARGS_MAX_VALUES];
    EXPECT_INT(args_list(&a, "files", list), 3);
    EXPECT_TEXT(list[2], "c");
    EXPECT_INT(args_list(&a, "set", list), 2);
    EXPECT_TEXT(list[1], "z.w=2");
    EXPECT_INT(a.positionals, 2);
    EXPECT_TEXT(a.positional[1], "second");
    EXPECT(args_switch(&a, "json") && !args_switch(&a, "quiet"));
    // defaults
    REQUIRE_OK(args_parse(&a, "test", "test", table, 4, 0, 0, 0, NULL, &err), err);
    EXPECT_INT(args_int(&a, "count"), 3);
    EXPECT(!args_given(&a, "count") && args_text(&a, "moves") == NULL);
    // a value for a switch, an empty text
    char* valued[] = {"--json=yes"};
    EXPECT_INT(args_parse(&a, "test", "test", table, 4, 0, 0, 1, valued, &err), FIRM_E_USAGE);
    char* empty[] = {"--moves", ""};
    EXPECT_INT(args_parse(&a, "test", "test", table, 4, 0, 0, 2, empty, &err), FIRM_E_USAGE);
}

// Both ends of a range belong to it; what lies beyond is refused with the range in the sentence.
TEST(cli, parser_keeps_numbers_in_their_range) {
    static const struct {
        const char *flag, *value;
        int ok;
    } row[] = {
        {"--count", "10", 1},     {"--count", "-10", 1},   {"--count", "11", 0},
        {"--count", "-11", 0},    {"--count", "100", 0},   {"--share", "1", 1},
        {"--share", "-1", 1},     {"--share", "1.001", 0}, {"--share", "-1.001", 0},
        {"--share", "inf", 0},    {"--share", "nan", 0},   {"--threads", "1024", 1},
        {"--threads", "1025", 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        firm_error err = {0};
        args a;
        char* line[] = {(char*)row[i].flag, (char*)row[i].value};
        EXPECT_INT(args_parse(&a, "test", "test", table, 4, 0, 0, 2, line, &err),
                   row[i].ok ? FIRM_OK : FIRM_E_USAGE);
        if (row[i].ok)
            EXPECT_TEXT(args_text(&a, row[i].flag + 2), row[i].value);
        else
            EXPECT(strstr(err.message, row[i].flag) && strstr(err.message, " to "));
    }
}

TEST(cli, nearest_names) {
    static const char* const names[] = {"collect", "train", "report", "bench"};
    EXPECT_TEXT(args_nearest("colect", names, 4), "collect");
    EXPECT_TEXT(args_nearest("trian", names, 4), "train");
    EXPECT_TEXT(args_nearest("rep", names, 4), "report");
    EXPECT(args_nearest("xyzzy", names, 4) == NULL);
}
