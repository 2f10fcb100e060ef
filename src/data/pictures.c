// pictures.c - packed frames: the difference to a background, deflated. One pointer per scene, set
// once by whoever draws it first; readers never wait.
#include "data/pictures.h"

#include <stdatomic.h>
#include <string.h>
#include <zlib.h>

#include "core/mem.h"

typedef struct packed {
    uint32_t size;
    uint8_t byte[];
} packed;

struct pictures {
    int64_t scenes;
    picture_fn draw;
    void* ctx;
    size_t budget;
    atomic_size_t used;
    _Atomic(packed*)* kept;  // (scenes), NULL where not drawn yet; NULL without a budget
    uint8_t background[ENV_FRAME_BYTES];
};

size_t picture_bound(void) {
    return compressBound(ENV_FRAME_BYTES);
}

size_t picture_pack(const uint8_t* rgb, const uint8_t* background, int level, uint8_t* to) {
    uint8_t difference[ENV_FRAME_BYTES];
    for (int i = 0; i < ENV_FRAME_BYTES; i++) difference[i] = (uint8_t)(rgb[i] - background[i]);
    uLongf n = picture_bound();
    return compress2(to, &n, difference, ENV_FRAME_BYTES, level) == Z_OK ? n : 0;
}

int picture_unpack(const uint8_t* from, size_t n, const uint8_t* background, uint8_t* rgb) {
    uLongf got = ENV_FRAME_BYTES;
    if (uncompress(rgb, &got, from, n) != Z_OK || got != ENV_FRAME_BYTES) return 0;
    for (int i = 0; i < ENV_FRAME_BYTES; i++) rgb[i] = (uint8_t)(rgb[i] + background[i]);
    return 1;
}

firm_status pictures_open(int64_t scenes, picture_fn draw, void* ctx, const uint8_t* background,
                          size_t budget, pictures** out, firm_error* err) {
    pictures* p = *out = mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for frames");
    p->scenes = scenes;
    p->draw = draw;
    p->ctx = ctx;
    p->budget = budget;
    if (budget == 0) return FIRM_OK;
    memcpy(p->background, background, ENV_FRAME_BYTES);
    p->kept = mem_calloc((size_t)scenes, sizeof *p->kept);
    if (p->kept) return FIRM_OK;
    pictures_free(p);
    *out = NULL;
    return FAIL(err, FIRM_E_MEMORY, "no memory for frames");
}

// a frame that cannot be kept is simply drawn again next time
static void keep(pictures* p, int64_t scene, const uint8_t* rgb) {
    if (atomic_load(&p->used) >= p->budget) return;
    uint8_t* room = mem_alloc(picture_bound());
    size_t n = room ? picture_pack(rgb, p->background, 1, room) : 0;
    packed* k = n ? mem_alloc(sizeof *k + n) : NULL;
    if (k) {
        k->size = (uint32_t)n;
        memcpy(k->byte, room, n);
        packed* none = NULL;
        if (atomic_compare_exchange_strong(&p->kept[scene], &none, k))
            atomic_fetch_add(&p->used, sizeof *k + n);
        else
            mem_free(k);  // another thread drew it meanwhile
    }
    mem_free(room);
}

firm_status pictures_get(pictures* p, int worker, int64_t scene, uint8_t* rgb) {
    if (scene < 0 || scene >= p->scenes) return FIRM_E_USAGE;
    const packed* k = p->kept ? atomic_load(&p->kept[scene]) : NULL;
    if (k) return picture_unpack(k->byte, k->size, p->background, rgb) ? FIRM_OK : FIRM_E_FORMAT;
    TRY(p->draw(p->ctx, worker, scene, rgb));
    if (p->kept) keep(p, scene, rgb);
    return FIRM_OK;
}

void pictures_free(pictures* p) {
    if (!p) return;
    for (int64_t i = 0; p->kept && i < p->scenes; i++) mem_free(atomic_load(&p->kept[i]));
    mem_free(p->kept);
    mem_free(p);
}
