// ops.h - the list of operations. Each has one definition in ref/ (plain loops, double: what the op
// means), one in cpu/ and one in cuda/, in a file of the same name.
//
// Letters: B samples of a shard (the `rows` of a call), T tokens or time, H W image, C channels, K
// N inner sizes. Shapes below are per sample; every value tensor has an implicit leading batch
// dimension, and parameters have none. "..." is any leading part.
#ifndef NN_OPS_H
#define NN_OPS_H

// X(NAME, file, inputs wanted by backward (bit mask), output wanted by backward)
#define NN_OP_MAP(X)                                                                               \
    /* linear.c */                                                                                 \
    X(LINEAR, 0x3, 0) /* x (..., K), w (K, N), b (N) or none -> (..., N) = x w + b */              \
    /* conv.c */                                                                                   \
    X(CONV2D, 0x3, 0)  /* x (H, W, C), w (k*k*C, N), b (N) -> (H', W', N) */                       \
    X(CONVT2D, 0x3, 0) /* x (H, W, C), w (C, k*k*N), b (N) -> (H', W', N), H' = (H-1)s - 2p + k */ \
    /* norm.c */                                                                                   \
    X(LAYERNORM, 0x3, 0) /* x (..., C), gamma (C), beta (C) */                                     \
    X(GROUPNORM, 0x3, 0) /* x (H, W, C) or (T, C), gamma (C), beta (C); statistics per group */    \
    X(ADANORM, 0x3, 0)   /* x, scale, shift (..., C): norm(x) (1 + scale) + shift, norm as in */   \
                         /* LAYERNORM without gamma and beta */                                    \
    /* batchnorm.c */                                                                              \
    X(BATCHNORM, 0x3, 0) /* x (..., C), gamma, beta (C), buffers mean, variance (C), count (1): */ \
                         /* training: statistics of the whole batch; deployed: the buffers */      \
    /* pointwise.c */                                                                              \
    X(GELU, 0x1, 0)     /* tanh form */                                                            \
    X(ERFGELU, 0x1, 0)  /* x Phi(x), exact */                                                      \
    X(SILU, 0x1, 0)     /* x / (1 + e^-x) */                                                       \
    X(ADD, 0x0, 0)      /* alpha * x + beta * y, equal shapes */                                   \
    X(ADDP, 0x0, 0)     /* x (..., p) + parameter (p), p = trailing dimensions of x; of a */       \
                        /* parameter larger than x its first numbers */                            \
    X(MUL, 0x3, 0)      /* x * y, equal shapes */                                                  \
    X(PAIRNORM, 0x1, 0) /* first `pairs` (sin, cos) pairs of the last dimension to unit length */  \
    X(CLAMP, 0x1, 0)    /* min(max(x, alpha), beta); gradient 0 outside */                         \
    X(RELATIVE, 0x3, 0) /* x, y (..., C): turn between the first `pairs` (sin, cos) pairs, as a */ \
                        /* pair again; x - y for the rest */                                       \
    /* dropout.c */                                                                                \
    X(DROPOUT, 0x0, 0) /* training: 0 with probability alpha, else x / (1 - alpha); deployed: x */ \
    /* shape.c */                                                                                  \
    X(CONCAT, 0x0, 0)  /* along dimension `axis` */                                                \
    X(SLICE, 0x0, 0)   /* [from, from + count) of dimension `axis` */                              \
    X(MEAN, 0x0, 0)    /* (T, C) -> (C), mean over the first dimension */                          \
    X(PREPEND, 0x0, 0) /* x (..., T, C), parameter p (C) -> (..., T + 1, C), p first */            \
    /* attention.c */                                                                              \
    X(ATTENTION, 0x1,                                                                              \
      0) /* qkv (..., T, 3D), mask (T, T) or none -> (..., T, D), `heads` heads, scale */          \
         /* 1/sqrt(D/heads); training: dropout of the probabilities with alpha */                  \
    /* pool.c */                                                                                   \
    X(COORDS, 0x0, 0)   /* x (H, W, C) -> (H, W, C + 2): x, y of the cell's middle, -1 .. 1 */     \
    X(SOFTPOOL, 0x3, 0) /* logits (T, K), v (T, C) -> (K, C): sums of v, softmax over T weighs */  \
    /* spatial.c: a disc that pushes a rigid shape, nn/spatial.h */                                \
    X(SPATIAL, 0x7, 0) /* c, velocity (2), u -> nn_push_features(), no parameters */               \
    /* image.c: bytes in, no gradient */                                                           \
    X(PATCHES, 0x0, 0)   /* o (.., H, W, 3) bytes -> (.., H/p * W/p, p*p*3), (o/255 - mean)/std */ \
    X(PATCHDIFF, 0x0, 0) /* o, o_prev bytes -> likewise, (o - o_prev) / 255 / std */               \
    X(PATCHMASK, 0x0,                                                                              \
      0) /* o, o_prev bytes -> (H/p * W/p, p*p): 1 where a channel differs by > 8 levels */        \
    /* loss.c: one number per sample */                                                            \
    X(MSE, 0x3, 0)   /* x, target -> (1): mean over the sample of (x - target)^2 */                \
    X(BCE, 0x3, 0)   /* logits, targets in 0..1 -> (1); positives weighted by alpha */             \
    X(NLL, 0x7, 0)   /* mean, log variance, target -> (1): mean of (lv + (t - m)^2 e^-lv) / 2 */   \
    X(CHORD, 0x3, 0) /* x, target (T, C) -> (T): largest squared distance of the first `pairs` */  \
                     /* pairs, q; with eps > 0 sqrt(q + eps^2) - eps */                            \
    /* sigreg.c */                                                                                 \
    X(SIGREG, 0x1, 0) /* z (T, D) -> (1): how far the batch is from a standard normal, seen */     \
                      /* along `groups` random directions; the same number for every sample */

typedef enum nn_op {
#define NN_OP_ENUM(name, wants_in, wants_out) NN_##name,
    NN_OP_MAP(NN_OP_ENUM)
#undef NN_OP_ENUM
        NN_OP_COUNT
} nn_op;

#endif
