// net_math.h - constants of GELU and LayerNorm for the planner's kernels.
#ifndef PLAN_NET_MATH_H
#define PLAN_NET_MATH_H

// 2^f on [-0.5, 0.5], degree 6, relative error 5e-9
#define EXP2_C0 1.0f
#define EXP2_C1 0.693147188f
#define EXP2_C2 0.240226508f
#define EXP2_C3 0.0555035711f
#define EXP2_C4 0.00961808256f
#define EXP2_C5 0.00133908634f
#define EXP2_C6 0.000154531629f
// 2^f on [0, 1), degree 5, relative error 8e-8, and degree 4, 3e-6
#define EXP2_FLOOR_C1 0.693151295f
#define EXP2_FLOOR_C2 0.240164444f
#define EXP2_FLOOR_C3 0.0557999127f
#define EXP2_FLOOR_C4 0.00901702978f
#define EXP2_FLOOR_C5 0.00186713017f
#define EXP2_SHORT_C1 0.693044841f
#define EXP2_SHORT_C2 0.241280213f
#define EXP2_SHORT_C3 0.0522424728f
#define EXP2_SHORT_C4 0.0134266848f
// gelu(x) = x / (1 + 2^t), t = -2 log2(e) 0.7978845608 (x + 0.044715 x^3)
#define GELU_K1 -2.3022082f
#define GELU_K3 -0.10294324f
#define LN_EPS 1e-5f

#endif
