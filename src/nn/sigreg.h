// sigreg.h - the constants of SIGReg's test (ref/sigreg.c says what it is): knots, window, rule.
#ifndef NN_SIGREG_H
#define NN_SIGREG_H

#ifndef __CUDACC__  // nvcc brings its own
#include <math.h>
#endif

#include "core/anywhere.h"

enum { SIGREG_KNOTS = 16 };  // those above 0; the last is 3

ANYWHERE double sigreg_tau(int k) {
    return 3.0 * (k + 1) / SIGREG_KNOTS;
}

ANYWHERE double sigreg_phi(int k) {
    return exp(-0.5 * sigreg_tau(k) * sigreg_tau(k));
}

ANYWHERE double sigreg_weight(int k) {
    return (k + 1 == SIGREG_KNOTS ? 1 : 2) * (3.0 / SIGREG_KNOTS) * sigreg_phi(k);
}

// L from the sums of cos and sin over a batch of n: (places, SIGREG_KNOTS, 2), places = T M
static inline double sigreg_loss(const double* sum, int places, int n) {
    double total = 0;
    for (int k = 0; k < SIGREG_KNOTS; k++) {
        double part = 0;
        for (int i = 0; i < places; i++) {
            const double* e = sum + (i * SIGREG_KNOTS + k) * 2;
            double c = e[0] / n - sigreg_phi(k), s = e[1] / n;
            part += c * c + s * s;
        }
        total += sigreg_weight(k) * part;
    }
    return total * n / places;
}

#endif
