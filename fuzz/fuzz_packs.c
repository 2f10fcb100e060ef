// fuzz_packs.c - the reader of packs on files that are wrong in what they hold, in their structure,
// or cut; see hdf5_harm.h for the input. What is accepted must be sound and write and read back.
//
//     ninja -C build-fuzz fuzz_packs
//     build-fuzz/fuzz/fuzz_packs -max_total_time=600 CORPUS fuzz/corpus/packs
//
// Half of the good packs hold states, half pictures: the first number change says which.
#include "data/hdf5.h"
#include "data/samples.h"
#include "hdf5_harm.h"

// the columns in the order of the pack's checksum, as docs/formats.md has it
static const char* const with_states[] = {"F_history",
                                          "F_seen",
                                          "F_past",
                                          "F_after",
                                          "F_action",
                                          "F_config",
                                          "F_chi",
                                          "F_rare",
                                          "I_history",
                                          "I_seen",
                                          "I_past",
                                          "I_after",
                                          "I_action",
                                          "I_config",
                                          "I_chi",
                                          "I_rare",
                                          "D_history",
                                          "D_seen",
                                          "D_past",
                                          "D_action",
                                          "D_config",
                                          "D_spread",
                                          "held_history",
                                          "held_seen",
                                          "held_past",
                                          "held_after",
                                          "held_action",
                                          "held_config",
                                          "held_chi",
                                          "held_rare",
                                          "pairs_held_1_scene",
                                          "pairs_held_1_config",
                                          "pairs_held_1_rare",
                                          "state",
                                          "picture",
                                          "picture_at",
                                          "background",
                                          "action_mean",
                                          "action_std",
                                          NULL};

static firm_status draw_plain(void* ctx, int worker, int64_t scene, uint8_t* rgb) {
    (void)ctx, (void)worker;
    memset(rgb, (int)scene, ENV_FRAME_BYTES);
    return FIRM_OK;
}

static uint64_t hash_bytes(uint64_t h, const uint8_t* data, size_t n) {
    uint8_t rest[4] = {0};
    h = hdf5_hash(h, data, n / 4 * 4);
    memcpy(rest, data + n / 4 * 4, n % 4);
    return n % 4 ? hdf5_hash(h, rest, 4) : h;
}

// Puts a value somewhere into a column; makes the pack's checksum good over all columns.
static void change_and_seal(const char* path, const change* numbers, int count) {
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    uint64_t hash = HDF5_HASH_START;
    MUST(file >= 0);
    for (int i = 0; with_states[i]; i++) {
        if (H5Lexists(file, with_states[i], H5P_DEFAULT) <= 0) continue;
        hid_t set = H5Dopen2(file, with_states[i], H5P_DEFAULT), type = H5Dget_type(set);
        hid_t space = H5Dget_space(set);
        const size_t each = H5Tget_size(type), n = (size_t)H5Sget_simple_extent_npoints(space);
        uint8_t* data = malloc(n * each + 8);
        MUST(data && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
        for (int k = 0; k < count; k++)
            if (numbers[k].what / 2 % harm_count(with_states) == i)
                memcpy(data + numbers[k].where % n * each, numbers[k].value.byte, each);
        MUST(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
        hash = hash_bytes(hash, data, n * each);
        free(data);
        H5Sclose(space);
        H5Tclose(type);
        H5Dclose(set);
    }
    hid_t a = H5Aopen(file, "checksum", H5P_DEFAULT);
    MUST(H5Awrite(a, H5T_NATIVE_UINT64, &hash) >= 0);
    H5Aclose(a);
    H5Fclose(file);
}

// A good pack of states or pictures, as bytes; made once.
static const harm_file* good_pack(const char* path, int as_pictures) {
    static harm_file good[2];
    static uint8_t background[ENV_FRAME_BYTES];
    if (good[as_pictures].byte) return &good[as_pictures];
    firm_error err = {0};
    episodes* e = sample_episodes(2);
    branches* b = sample_branches(e);
    pictures* drawn;
    pack p;
    pack_file made;
    MUST(sample_pack(e, b, &p));
    MUST(pictures_open(&(pictures_of){p.scenes, ENV_FRAME_BYTES, draw_plain, NULL, background}, 0,
                       &drawn, &err) == FIRM_OK);
    MUST(pack_write(&p, as_pictures ? drawn : NULL, NULL, path, &made, &err) == FIRM_OK);
    harm_load(path, &good[as_pictures]);
    pictures_free(drawn);
    pack_free(&p);
    branches_free(b);
    episodes_free(e);
    return &good[as_pictures];
}

static void write_pack(const char* path, const change* numbers, int count) {
    const harm_file* good = good_pack(path, count && numbers[0].what & 1);
    harm_store(path, good, good->size);
    if (count) change_and_seal(path, numbers, count);
}

static void check_records(const pack* p, const records* r) {
    for (int i = 0; i < r->count; i++) {
        MUST(r->history[i] >= (i ? r->history[i - 1] : 0) && r->history[i] < r->histories);
        MUST(!r->after || (r->after[i] >= -1 && r->after[i] < p->scenes && r->rare[i] <= 1));
    }
    for (int i = 0; r->spread && i < r->count * ENV_HORIZON; i++)
        MUST(isfinite(r->spread[i]) && r->spread[i] >= 0);
    for (int i = 0; i < r->histories * RECORD_FRAMES; i++)
        MUST(r->seen[i] >= -1 && r->seen[i] < p->scenes);
    for (int i = 0; i < r->count * ENV_POINTS * 2; i++) MUST(isfinite(r->config[i]));
}

static void check_pack(const char* path) {
    static uint8_t rgb[ENV_FRAME_BYTES];
    char second[80];
    firm_error err = {0};
    pack p, again;
    pack_file made;
    if (!harm_accepted(pack_read(path, sample_task(), &p, &err), &err, path)) return;
    for (int i = 0; i < PACK_SOURCES; i++) check_records(&p, &p.set[i]);
    for (int i = 0; i < p.lists; i++)
        for (int k = 0; k < 2 * p.list[i].p.count; k++)
            MUST(p.list[i].p.scene[k] >= 0 && p.list[i].p.scene[k] < p.scenes);
    MUST(p.scenes >= 1 && !p.state == !!p.picture && p.action_std[0] > 0);
    for (int64_t i = 0; i < p.scenes; i++) {
        if (p.state)
            MUST(env_fits(p.spec, pack_state(&p, i)));
        else
            (void)picture_unpack(p.picture + p.picture_at[i],
                                 (size_t)(p.picture_at[i + 1] - p.picture_at[i]),
                                 (picture_background){p.background, ENV_FRAME_BYTES}, rgb);
    }
    snprintf(second, sizeof second, "%s.second", path);
    const firm_status status = pack_write(&p, NULL, NULL, second, &made, &err);
    MUST(status == FIRM_OK);
    MUST(pack_read(second, sample_task(), &again, &err) == FIRM_OK);
    MUST(again.set[PACK_F].count == p.set[PACK_F].count && again.lists == p.lists);
    MUST(again.set[PACK_D].count == p.set[PACK_D].count);
    MUST(!again.imagined_hash == !p.set[PACK_D].count);
    pack_free(&again);
    unlink(second);
    pack_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const char* const attribute[] = {
        "kind",           "task",        "selection",   "data_hash",   "data_seed",
        "scenes",         "F_records",   "F_histories", "I_records",   "I_histories",
        "S_records",      "S_histories", "D_records",   "D_histories", "held_records",
        "held_histories", "lists",       "list0",       "checksum",    NULL};
    static const harm_target target = {with_states, attribute, write_pack, check_pack};
    harm_run(&target, data, size);
    return 0;
}

#include "env/env.h"
#include "replay.h"
