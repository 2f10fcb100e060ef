// replay.h - included last by every fuzz target. libFuzzer brings its own main(); with
// FIRM_FUZZ_MAIN a plain compiler builds a program that runs the target once on each file named on
// the command line, to replay a finding or a corpus without clang.
#ifndef FUZZ_REPLAY_H
#define FUZZ_REPLAY_H

#ifdef FIRM_FUZZ_MAIN
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        FILE* f = fopen(argv[i], "rb");
        size_t used = 0, room = 1 << 16;
        unsigned char* bytes = malloc(room);
        if (!f || !bytes) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 2;
        }
        for (size_t n; (n = fread(bytes + used, 1, room - used, f)) > 0;) {
            used += n;
            if (used < room) continue;
            room *= 2;
            bytes = realloc(bytes, room);
            if (!bytes) return 2;
        }
        fclose(f);
        // a block of the exact size, so that a sanitizer sees a read past the end
        unsigned char* exact = malloc(used ? used : 1);
        if (!exact) return 2;
        for (size_t k = 0; k < used; k++) exact[k] = bytes[k];
        LLVMFuzzerTestOneInput(exact, used);
        free(exact);
        free(bytes);
        printf("%s: fine\n", argv[i]);
    }
    return 0;
}
#endif

#endif
