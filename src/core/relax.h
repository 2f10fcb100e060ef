// relax.h - tells the core that this is a spin loop.
#ifndef CORE_RELAX_H
#define CORE_RELAX_H

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
