// pack.h - everything a training run reads, in memory and as one small file: records, pairs of
// frames, action statistics, and the frames themselves, either as states to draw them from or as
// pictures. With pictures a run needs neither the episodes nor the simulator.
//
// In memory scenes are numbered as in records.h; in a file they are renumbered, used ones only.
#ifndef DATA_PACK_H
#define DATA_PACK_H

#include "data/pictures.h"
#include "data/records.h"

// F recorded, I and S interventions, D imagined, and the recorded ones that are held out.
typedef enum pack_source { PACK_F, PACK_I, PACK_S, PACK_D, PACK_HELD, PACK_SOURCES } pack_source;
enum { PACK_LISTS = 16, PACK_TEXT = 256 };

typedef struct pack_list {
    int source, lag;
    pairs p;
} pack_list;

typedef struct pack {
    const env_spec* spec;
    uint64_t data_hash, data_seed;  // of the episodes
    uint64_t imagined_hash;         // of the imagined records in a file; 0: none
    char selection[PACK_TEXT];      // the settings that decided what is in here
    float action_mean[FIRM_MAX_ACTION], action_std[FIRM_MAX_ACTION];
    records set[PACK_SOURCES];  // count 0: not there
    pack_list list[PACK_LISTS];
    int lists;
    int64_t scenes;
    scenes from;  // made from episodes: where states are; from.e NULL in a file
    // of a file only
    double* state;        // (scenes, state_dim), or NULL: there are pictures
    uint8_t* background;  // (image, image, 3)
    uint8_t* picture;     // packed, one after the other
    int64_t* picture_at;  // (scenes + 1)
} pack;

const double* pack_state(const pack* p, int64_t scene);  // NULL: only its picture is known
int pack_find(const pack* p, int source, int lag);       // index of a list, -1: none
// A scene's frame, unpacked or drawn by `painter` (NULL where there are pictures).
firm_status pack_frame(const pack* p, env* painter, int64_t scene, uint8_t* rgb);

// Adds records to a source of a pack that was read from a file and holds states (FIRM_E_USAGE if it
// holds pictures): their scenes are rows of `state` (rows, state_dim), which become scenes of the
// pack.
firm_status pack_append(pack* p, pack_source source, const records* more, const double* state,
                        int64_t rows, firm_error* err);

// Writes the frames in use: packed pictures with `draw`, as they are where the pack holds pictures,
// else their states. Scene -1 is none.
typedef struct pack_file {
    int64_t scenes, bytes;
} pack_file;
firm_status pack_write(const pack* p, pictures* draw, pool* workers, const char* path,
                       pack_file* made, firm_error* err);
firm_status pack_read(const char* path, const env_spec* spec, pack* out, firm_error* err);
void pack_free(pack* p);

#endif
