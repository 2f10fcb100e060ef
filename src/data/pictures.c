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
    size_t bytes;            // of a frame
    uint8_t* background;     // (bytes), owned; NULL without a budget
};

static picture_background background_of(const pictures* p) {
    return (picture_background){p->background, p->bytes};
}

size_t picture_bound(size_t bytes) {
    return compressBound(bytes);
}

size_t picture_pack(const uint8_t* rgb, picture_background background, int level, uint8_t* to) {
    uint8_t difference[PICTURE_MOST];
    CHECK(background.bytes <= PICTURE_MOST, "a frame of %zu bytes", background.bytes);
    for (size_t i = 0; i < background.bytes; i++)
        difference[i] = (uint8_t)(rgb[i] - background.rgb[i]);
    uLongf n = picture_bound(background.bytes);
    return compress2(to, &n, difference, background.bytes, level) == Z_OK ? n : 0;
}

int picture_unpack(const uint8_t* from, size_t n, picture_background background, uint8_t* rgb) {
    uLongf got = background.bytes;
    if (uncompress(rgb, &got, from, n) != Z_OK || got != background.bytes) return 0;
    for (size_t i = 0; i < background.bytes; i++) rgb[i] = (uint8_t)(rgb[i] + background.rgb[i]);
    return 1;
}

firm_status pictures_open(const pictures_of* of, size_t budget, pictures** out, firm_error* err) {
    pictures* p = *out = mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for frames");
    p->scenes = of->scenes;
    p->bytes = of->bytes;
    p->draw = of->draw;
    p->ctx = of->ctx;
    p->budget = budget;
    if (budget == 0) return FIRM_OK;
    p->background = mem_alloc(of->bytes);
    if (p->background) memcpy(p->background, of->background, of->bytes);
    p->kept = mem_calloc((size_t)of->scenes, sizeof *p->kept);
    if (p->background && p->kept) return FIRM_OK;
    pictures_free(p);
    *out = NULL;
    return FAIL(err, FIRM_E_MEMORY, "no memory for frames");
}

// a frame that cannot be kept is simply drawn again next time
static void keep(pictures* p, int64_t scene, const uint8_t* rgb) {
    if (atomic_load(&p->used) >= p->budget) return;
    uint8_t* room = mem_alloc(picture_bound(p->bytes));
    size_t n = room ? picture_pack(rgb, background_of(p), 1, room) : 0;
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
    if (k) return picture_unpack(k->byte, k->size, background_of(p), rgb) ? FIRM_OK : FIRM_E_FORMAT;
    TRY(p->draw(p->ctx, worker, scene, rgb));
    if (p->kept) keep(p, scene, rgb);
    return FIRM_OK;
}

void pictures_free(pictures* p) {
    if (!p) return;
    for (int64_t i = 0; p->kept && i < p->scenes; i++) mem_free(atomic_load(&p->kept[i]));
    mem_free(p->kept);
    mem_free(p->background);
    mem_free(p);
}
