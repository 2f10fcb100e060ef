// graph_test.c - building graphs: output shapes, what is trained, and that a wrong shape stops the
// program with the shapes in the text instead of computing nonsense.
#define _POSIX_C_SOURCE 200809L
#include "nn/graph.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

typedef struct fixture {
    nn_store* store;
    nn_graph* g;
} fixture;

static int open_graph(fixture* f) {
    firm_error err = {0};
    *f = (fixture){0};
    if (nn_store_create(&f->store, &err) != FIRM_OK ||
        nn_graph_create(f->store, &f->g, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return 0;
    }
    return 1;
}

static void close_graph(fixture* f) {
    nn_graph_free(f->g);
    nn_store_free(f->store);
}

static void expect_shape(const nn_graph* g, nn_id x, int rank, const int* dim) {
    EXPECT_INT(g->tensor[x].rank, rank);
    int size = 1;
    for (int i = 0; i < rank; i++) {
        EXPECT_INT(nn_dims(g, x)[i], dim[i]);
        size *= dim[i];
    }
    EXPECT_INT(nn_size(g, x), size);
    EXPECT_INT(nn_last(g, x), dim[rank - 1]);
}

TEST(nn, graph_shapes) {
    fixture f;
    if (!open_graph(&f)) return;
    nn_graph* g = f.g;
    nn_id image = nn_image(g, "o", 56), other = nn_image(g, "before", 56);
    nn_id p = nn_patches(g, image, 8, (float[3]){0}, (float[]){1, 1, 1});
    expect_shape(g, p, 2, (int[]){49, 192});
    expect_shape(g, nn_patchdiff(g, image, other, 7, (float[]){1, 1, 1}), 2, (int[]){64, 147});
    expect_shape(g, nn_patchmask(g, image, other, 8), 2, (int[]){49, 64});
    nn_id x = nn_input(g, "x", 3, (int[]){7, 5, 4});
    expect_shape(g, nn_conv(g, "c1", x, 6, 3, 2, 1), 3, (int[]){4, 3, 6});
    expect_shape(g, nn_conv(g, "c2", x, 6, 2, 2, 0), 3, (int[]){3, 2, 6});
    expect_shape(g, nn_convt(g, "t1", x, 6, 4, 2, 1), 3, (int[]){14, 10, 6});
    expect_shape(g, nn_linear(g, "l1", x, 9, 1), 3, (int[]){7, 5, 9});
    expect_shape(g, nn_slice(g, x, 1, 2, 3), 3, (int[]){7, 3, 4});
    expect_shape(g, nn_concat(g, 2, 2, (nn_id[]){x, x}), 3, (int[]){7, 5, 8});
    nn_id tokens = nn_reshape(g, x, 2, (int[]){35, 4});
    expect_shape(g, tokens, 2, (int[]){35, 4});
    expect_shape(g, nn_mean(g, tokens), 1, (int[]){4});
    EXPECT_INT(g->tensor[tokens].root, x);
    EXPECT_INT(g->tensor[nn_reshape(g, tokens, 1, (int[]){140})].root, x);
    nn_id qkv = nn_linear(g, "qkv", tokens, 24, 1);
    static const uint8_t mask[35 * 35];
    expect_shape(g, nn_attention(g, qkv, 2, mask), 2, (int[]){35, 8});
    expect_shape(g, nn_mse(g, x, x), 1, (int[]){1});
    EXPECT_INT(nn_pairnorm(g, x, 0), x);  // no pairs: nothing to do
    // layers name their parameters; the same name is the same parameter
    int c1 = nn_store_find(f.store, "c1.weight");
    EXPECT(c1 >= 0 && f.store->entry[c1].dim[0] == 36 && f.store->entry[c1].dim[1] == 6);
    int t1 = nn_store_find(f.store, "t1.weight");
    EXPECT(t1 >= 0 && f.store->entry[t1].dim[0] == 4 && f.store->entry[t1].dim[1] == 96);
    int before = f.store->entries;
    nn_linear(g, "l1", x, 9, 1);
    EXPECT_INT(f.store->entries, before);
    close_graph(&f);
}

// a gradient is wanted by trained parameters and by everything computed from them
TEST(nn, graph_wants_grad) {
    fixture f;
    if (!open_graph(&f)) return;
    nn_graph* g = f.g;
    nn_train(g, "head.");
    nn_id x = nn_input1(g, "x", 4);
    nn_id body = nn_linear(g, "body", x, 4, 1), head = nn_linear(g, "head.y", body, 3, 1);
    nn_id seen = nn_reshape(g, head, 2, (int[]){3, 1});
    EXPECT(!g->tensor[x].wants_grad);
    EXPECT(!g->tensor[body].wants_grad);
    EXPECT(g->tensor[head].wants_grad);
    EXPECT(g->tensor[seen].wants_grad);
    EXPECT(g->tensor[nn_mse(g, nn_input1(g, "t", 3), head)].wants_grad);
    close_graph(&f);
}

// ---- mistakes stop the program
// -------------------------------------------------------------------

static void wrong_linear(nn_graph* g) {
    nn_id w = nn_param(g, "w", NN_INIT_ZERO, 0, 2, (int[]){5, 3});
    nn_op_linear(g, nn_input1(g, "x", 4), w, NN_NONE);
}
static void wrong_conv(nn_graph* g) {
    nn_id w = nn_param(g, "w", NN_INIT_ZERO, 0, 2, (int[]){18, 3});
    nn_op_conv2d(g, nn_input(g, "x", 3, (int[]){4, 4, 3}), w, NN_NONE, 3, 1, 1);
}
static void wrong_groups(nn_graph* g) {
    nn_groupnorm(g, "gn", nn_input(g, "x", 2, (int[]){4, 6}), 4);
}
static void wrong_add(nn_graph* g) {
    nn_add(g, nn_input1(g, "x", 4), nn_input1(g, "y", 5));
}
static void wrong_slice(nn_graph* g) {
    nn_slice(g, nn_input1(g, "x", 4), 0, 2, 3);
}
static void wrong_concat(nn_graph* g) {
    nn_id x = nn_input(g, "x", 2, (int[]){4, 2}), y = nn_input(g, "y", 2, (int[]){5, 2});
    nn_concat(g, 1, 2, (nn_id[]){x, y});
}
static void wrong_reshape(nn_graph* g) {
    nn_reshape(g, nn_input1(g, "x", 4), 2, (int[]){2, 3});
}
static void wrong_heads(nn_graph* g) {
    static const uint8_t mask[4];
    nn_attention(g, nn_input(g, "x", 2, (int[]){2, 12}), 3, mask);
}
static void wrong_patch(nn_graph* g) {
    nn_patchmask(g, nn_image(g, "o", 8), nn_image(g, "before", 8), 3);
}
static void wrong_parameter(nn_graph* g) {
    nn_id x = nn_input1(g, "x", 4);
    nn_linear(g, "l", x, 4, 1);
    nn_linear(g, "l", x, 5, 1);  // the same name with another shape
}

TEST(nn, graph_mistakes_stop_the_program) {
    static const struct {
        void (*build)(nn_graph*);
        const char* text;
    } table[] = {
        {wrong_linear, "x has 4, w 5 x 3"},
        {wrong_conv, "3 channels, kernel 3, weights for 18"},
        {wrong_groups, "6 channels in 4 groups"},
        {wrong_add, "sizes 4 and 5"},
        {wrong_slice, "slice 2 + 3 of 4"},
        {wrong_concat, "dimension 0 is 4 and 5"},
        {wrong_reshape, "reshape of 4 to 6"},
        {wrong_heads, "width 12 in 3 heads"},
        {wrong_patch, "patches of 3 in 8"},
        {wrong_parameter, "l.weight declared twice"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int pipes[2], status = 0;
        fixture f;
        if (pipe(pipes) != 0 || !open_graph(&f)) {
            test_fail(__FILE__, __LINE__, "no pipe or graph");
            return;
        }
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            dup2(pipes[1], 2);
            table[i].build(f.g);
            _exit(0);  // not reached when the mistake is found
        }
        close(pipes[1]);
        char text[512] = {0};
        size_t used = 0;
        ssize_t n;
        while (used + 1 < sizeof text &&
               (n = read(pipes[0], text + used, sizeof text - 1 - used)) > 0)
            used += (size_t)n;
        close(pipes[0]);
        waitpid(child, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, table[i].text)) {
            test_fail(__FILE__, __LINE__, "mistake %zu: status %d, said '%s', expected '%s'", i,
                      status, text, table[i].text);
        }
        close_graph(&f);
    }
}
