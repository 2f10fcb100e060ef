// native_light.c - lighting of a vertex, by the rules of OpenGL's fixed functions, which MuJoCo's
// own renderer uses: ambient, diffuse and highlight of each light at each vertex, spread over the
// triangle afterwards. Everything is in the frame of the geom, so that its normals need not be
// turned.
#include <math.h>

#include "env/render/native.h"

// x^e from basic operations: x = 2^k * f with f in [0.7, 1.4], log f as a series in (f-1)/(f+1)
double native_power(double x, double exponent) {
    if (exponent == 0) return 1;
    if (x <= 0) return 0;
    int k;
    double f = frexp(x, &k);
    if (f < 0.70710678118654752) f *= 2, k--;
    double q = (f - 1) / (f + 1), q2 = q * q, sum = 0;
    for (int n = 15; n >= 0; n--) sum = sum * q2 + 1.0 / (2 * n + 1);
    double bits = exponent * (k + 2 * q * sum * 1.4426950408889634);  // log2 of the result
    if (bits < -1000) return 0;
    double whole = floor(bits + 0.5), r = (bits - whole) * 0.6931471805599453, e = 1;
    for (int n = 14; n >= 1; n--) e = 1 + e * r / n;
    return ldexp(e, (int)whole);
}

void native_power_fill(power_table* t, float exponent) {
    t->exponent = exponent;
    for (int i = 0; i <= NATIVE_POWER_STEPS + 1; i++) {
        double x = (double)i / NATIVE_POWER_STEPS;
        t->value[i] = (float)native_power(x < 1 ? x : 1, exponent);
    }
}

static float power(const power_table* t, float x) {
    if (x >= 1) return 1;
    float at = x * NATIVE_POWER_STEPS;
    int i = (int)at;
    return t->value[i] + (at - (float)i) * (t->value[i + 1] - t->value[i]);
}

static void add(const light* l, const material* m, const float p[3], const float n[3],
                const float to_eye[3], float rgb[3]) {
    float to[3], strength = 1;  // towards the light; what distance and cone leave of it
    if (l->directional) {
        for (int k = 0; k < 3; k++) to[k] = -l->dir[k];
    } else {
        for (int k = 0; k < 3; k++) to[k] = l->pos[k] - p[k];
        float far2 = dot(to, to), far = sqrtf(far2), inv = far > 0 ? 1 / far : 0;
        for (int k = 0; k < 3; k++) to[k] *= inv;
        strength = 1 / (l->attenuation[0] + l->attenuation[1] * far + l->attenuation[2] * far2);
        if (l->spot) {
            float along = -dot(to, l->dir);
            if (along < l->cos_cutoff) return;
            strength *= power(l->fall_off, along > 0 ? along : 0);
        }
    }
    float facing = dot(n, to), diffuse = facing > 0 ? facing * strength : 0, shine = 0;
    if (facing > 0 && m->specular > 0 &&
        (l->specular[0] > 0 || l->specular[1] > 0 || l->specular[2] > 0)) {
        float h[3] = {to[0] + to_eye[0], to[1] + to_eye[1], to[2] + to_eye[2]};
        float len2 = dot(h, h), hn = dot(n, h);
        if (hn > 0 && len2 > 0) shine = power(m->shine, hn / sqrtf(len2)) * strength * m->specular;
    }
    for (int k = 0; k < 3; k++)
        rgb[k] += m->rgba[k] * (l->ambient[k] * strength + l->diffuse[k] * diffuse) +
                  l->specular[k] * shine;
}

void native_light_vertex(const local_lights* l, const material* m, int shadows, int all_plain,
                         const float p[3], const float n[3], float* out) {
    float to_eye[3] = {l->eye[0] - p[0], l->eye[1] - p[1], l->eye[2] - p[2]};
    float inv = 1 / sqrtf(dot(to_eye, to_eye) + 1e-30f);
    for (int k = 0; k < 3; k++) to_eye[k] *= inv;
    for (int k = 0; k < 3; k++) out[k] = m->emission * m->rgba[k];
    for (int k = 3; k < 3 * (1 + shadows); k++) out[k] = 0;
    for (int i = 0; i < l->count; i++) {
        int pass = all_plain ? 0 : 1 + l->of[i].shadow;
        add(&l->of[i], m, p, n, to_eye, out + 3 * pass);
    }
    if (l->count == 0)  // without lights there is a little from everywhere
        for (int k = 0; k < 3; k++) out[k] += 0.3f * m->rgba[k];
    for (int k = 0; k < 3 * (1 + shadows); k++) out[k] = out[k] < 1 ? out[k] : 1;
}
