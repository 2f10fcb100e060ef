// lewm_amx_emulated.c - src/plan/lewm_amx.c with its tile instructions in plain C, as a table of
// its own. Its other instructions are AVX-512, so it runs where these are.
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")
#pragma GCC optimize("O3")
#include "amx_emulation.h"

#define lewm_products_amx lewm_products_amx_emulated
#include "../../src/plan/lewm_amx.c"
#endif
