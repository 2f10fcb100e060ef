// fuzz_episodes.c - the reader of data sets on files that are wrong in what they hold, in their
// structure, or cut; see hdf5_harm.h for the input. What is accepted must be sound.
//
//     ninja -C build-fuzz fuzz_episodes
//     build-fuzz/fuzz/fuzz_episodes -max_total_time=600 CORPUS fuzz/corpus/episodes
#include "data/episodes_internal.h"
#include "data/frames.h"
#include "data/samples.h"
#include "hdf5_harm.h"

static void write_episodes(const char* path, const change* numbers, int count) {
    episodes* e = sample_episodes(2);
    MUST(e);
    for (int i = 0; i < count; i++) {
        const change* c = &numbers[i];
        switch (c->what % 5) {
            case 0: e->state[(c->where * 7) % (e->rows * 2)] = c->value.real; break;
            case 1: e->action[(c->where * 7) % (e->rows * 2)] = c->value.single; break;
            case 2: e->offset[c->where % e->count] = c->value.whole; break;
            case 3: e->seed = c->value.number; break;
            case 4: e->hash ^= c->value.number; break;
        }
    }
    // our own checksum fits the numbers, unless it is what was changed
    const uint64_t wrong = e->hash;
    int64_t first[2] = {e->offset[0], e->offset[1]};
    e->offset[0] = 0, e->offset[1] = e->length[0];
    e->hash = episodes_hash(e);
    for (int i = 0; i < count; i++)
        if (numbers[i].what % 5 == 4) e->hash = wrong;
    // the writer needs true offsets for its columns, so wrong ones are put in afterwards
    firm_error err = {0};
    MUST(episodes_write(e, NULL, NULL, path, &err) == FIRM_OK);
    if (first[0] != 0 || first[1] != e->length[0]) {
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        hid_t set = H5Dopen2(file, "ep_offset", H5P_DEFAULT);
        MUST(H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, first) >= 0);
        H5Dclose(set);
        H5Fclose(file);
    }
    episodes_free(e);
}

static void check_episodes(const char* path) {
    firm_error err = {0};
    episodes* e = NULL;
    const firm_status status = episodes_read(path, sample_task(), &e, &err);
    MUST((status == FIRM_OK) == (e != NULL));
    if (!harm_accepted(status, &err, path)) return;
    int64_t next = 0;
    for (int i = 0; i < e->count; i++) {
        MUST(e->offset[i] == next && e->length[i] >= 1);
        next += e->length[i];
        for (int64_t row = e->offset[i]; row < next; row++) {
            MUST(env_fits(e->spec, e->state + 2 * row));
            for (int k = 0; k < 2 && row < next - 1; k++) MUST(isfinite(e->action[2 * row + k]));
        }
    }
    MUST(next == e->rows && e->hash == episodes_hash(e));
    if (e->pixels) {
        static uint8_t rgb[ENV_FRAME_BYTES];
        frames* f;
        if (frames_open(e, 1, 0, &f, &err) == FIRM_OK) {
            (void)frames_get(f, 0, e->rows - 1, rgb);
            frames_free(f);
        }
    }
    episodes_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const char* const column[] = {"ep_len",  "ep_offset", "ep_idx",   "action", "pos_agent",
                                         "proprio", "pixels",    "step_idx", NULL};
    static const char* const attribute[] = {"kind", "task", "seed", "checksum", "version", NULL};
    static const harm_target target = {column, attribute, write_episodes, check_episodes};
    harm_run(&target, data, size);
    return 0;
}

#include "env/env.h"
#include "replay.h"
