// net_split.c - how candidates are cut into panels, and how threads share a rollout.
//
// Threads that take candidates of their own never wait for each other, but each reads all weights.
// Candidates for which there is no full vector for every thread are shared by features; a quick
// thread takes more of those.
//
// A team takes more candidates together, in full vectors, and splits every product's groups of
// output features, so that a member's weights fit into its core's L2. In return its members meet
// after each product and read what others wrote. Which is faster depends on the machine and on what
// else runs there: a guess leads, the clock decides.
#include <math.h>

#include "plan/net_internal.h"

int net_blocks(int units, int most) {
    return (units + most - 1) / most;
}

int net_block_from(const net_kernels* k, int units, int blocks, int block) {
    int wide = k->panel[0].units, panels = (units + wide - 1) / wide;
    int from = panels * block / blocks * wide;
    return from < units ? from : units;
}

int net_cut(const net_kernels* k, int units, panel* out) {
    int count = 0, lane = 0;
    for (int i = 0; i < k->panels; i++)
        for (; units >= k->panel[i].units; units -= k->panel[i].units) {
            int width = k->panel[i].units * k->unit;
            out[count++] = (panel){&k->panel[i], lane, width};
            lane += width;
        }
    return count;
}

// Cost of `units` units of candidates, in products of 16 candidates.
static double panels_cost(const net_kernels* k, int units) {
    double cost = 0;
    for (int i = 0; i < k->panels; i++) {
        cost += 0.01 * (units / k->panel[i].units) * k->panel[i].cost;
        units %= k->panel[i].units;
    }
    return cost;
}

// Weights that the busiest of so many members multiplies with in one macro step.
static double weights_each(const plan_net* net, int members) {
    const plan_net_shape* s = &net->shape;
    double sum = 0;
#define SHARE(p) ((double)(((p).groups + members - 1) / members) * (p).inputs)
    sum += SHARE(net->in) + SHARE(net->heads);
    for (int i = 0; i < s->blocks; i++) sum += SHARE(net->first[i]) + SHARE(net->second[i]);
    if (s->spatial) sum += SHARE(net->spatial_first) + SHARE(net->spatial_second);
#undef SHARE
    return sum * net->kernels->rows;
}

// ---- pieces -------------------------------------------------------------------------------------

// At least so much of all candidates is a rest: cores are not equally fast, and a quick one takes
// more of it.
enum { REST_SHARE = 8 };

plan_net_pieces plan_net_cut(const plan_net* net, int threads, int n) {
    const int unit = net->kernels->unit, units = (n + unit - 1) / unit, each = units / threads;
    int wide = each > 1 ? each - each % 2 : each;
    while (wide > 2 && (units - threads * wide) * REST_SHARE < units) wide -= 2;
    const int rest = units - threads * wide;
    if (threads == 1 || each == 0 || rest * unit > plan_net_rest_lanes(net))
        return (plan_net_pieces){
            .n = n, .units = units, .count = units < threads ? units : threads};
    return (plan_net_pieces){.n = n, .units = units, .count = threads, .wide = wide, .rest = rest};
}

void plan_net_piece(const plan_net* net, const plan_net_pieces* p, int item, int* from, int* to) {
    const int unit = net->kernels->unit;
    if (p->wide) {
        *from = item * p->wide * unit;
        *to = *from + p->wide * unit;
    } else {
        *from = (int)((int64_t)p->units * item / p->count) * unit;
        *to = (int)((int64_t)p->units * (item + 1) / p->count) * unit;
    }
    if (*to > p->n) *to = p->n;
}

// ---- the choice ---------------------------------------------------------------------------------

// Time of one macro step on equally fast threads, each with candidates of its own.
static double alone_cost(const plan_net* net, int threads, int n) {
    plan_net_pieces p = plan_net_cut(net, threads, n);
    const net_kernels* k = net->kernels;
    int wide = p.wide ? p.wide : (p.units + p.count - 1) / p.count, most = net->block / k->unit;
    double lanes = panels_cost(k, p.rest) / threads;
    for (int left = wide; left > 0; left -= most)
        lanes += panels_cost(k, left < most ? left : most);
    return lanes * weights_each(net, 1);
}

// A meeting takes about a microsecond, more with many members. What else a team loses, by reading
// what others wrote and by waiting for the slowest, was measured on 16 virtual cores: teams of 2, 4
// and 8 took 1.6, 1.9 and 2.3 times as long as their products alone should. The clock corrects it.
static double team_cost(const plan_net* net, int threads, int members, int n) {
    const net_kernels* k = net->kernels;
    int teams = threads / members, units = (n + k->unit - 1) / k->unit;
    int share = (units + teams - 1) / teams, most = plan_net_block_lanes(net) * members / k->unit;
    int blocks = net_blocks(share, most);
    double lanes = 0, meetings = 4 + 3 * (net->shape.blocks + (net->shape.spatial > 0));
    for (int b = 0; b < blocks; b++)
        lanes += panels_cost(
            k, net_block_from(k, share, blocks, b + 1) - net_block_from(k, share, blocks, b));
    return (1.4 + 0.11 * members) * lanes * weights_each(net, members) +
           blocks * meetings * k->speed * (1 + 0.1 * members);
}

static double guess(const plan_net* net, int threads, int members, int n) {
    return members == 1 ? alone_cost(net, threads, n) : team_cost(net, threads, members, n);
}

// The smallest of these is the guess's choice. A split whose guess is further off than WORTH is not
// tried; one that is not the fastest so far is tried again every AGAIN rollouts, in turn.
enum { TRIES = 2, AGAIN = 64 };
#define WORTH 1.5

static int size_of(int n) {
    int size = 0;
    while (n > 1 && size < PLAN_SPLIT_SIZES - 1) n /= 2, size++;
    return size;
}

// Teams leave at most a tenth of the threads without work.
static int splits_evenly(int threads, int members) {
    return 10 * (threads % members) <= threads;
}

int plan_net_members(const plan_net* net, const plan_net_paces* paces, int threads, int n) {
    double cost[PLAN_TEAM_MOST + 1], least = INFINITY;
    const int most = threads < PLAN_TEAM_MOST ? threads : PLAN_TEAM_MOST, size = size_of(n);
    int guessed = 1;
    for (int m = 1; m <= most; m++) {
        cost[m] = splits_evenly(threads, m) ? guess(net, threads, m, n) : INFINITY;
        if (cost[m] < least) least = cost[m], guessed = m;
    }
    if (!paces) return guessed;
    int best = 0, again = -1;
    double fastest = INFINITY;
    const int turn = paces->rollouts[size] / AGAIN % most + 1;
    for (int m = 1; m <= most; m++) {
        if (!(cost[m] <= WORTH * least)) continue;
        if (paces->split[size][m].tried < TRIES) return m;
        double time = cost[m] * paces->split[size][m].factor;
        if (time < fastest) fastest = time, best = m;
        if (m == turn) again = m;
    }
    if (paces->rollouts[size] % AGAIN == AGAIN - 1 && again > 0) return again;
    return best ? best : guessed;
}

// The first rollout of a split finds its weights elsewhere, so the quicker of the first tries
// counts. Later ones move the factor slowly: a stall says nothing about the split.
void plan_net_paced(plan_net_paces* paces, const plan_net* net, int threads, int members,
                    const plan_net_job* job, int64_t ns) {
    const int size = size_of(job->n);
    double now = (double)ns / (guess(net, threads, members, job->n) * job->horizon);
    double* factor = &paces->split[size][members].factor;
    int* tried = &paces->split[size][members].tried;
    if (*tried == 0 || (*tried < TRIES && now < *factor))
        *factor = now;
    else if (*tried >= TRIES)
        *factor += 0.25 * (fmin(now, 1.5 * *factor) - *factor);
    if (*tried < TRIES) ++*tried;
    paces->rollouts[size] = (paces->rollouts[size] + 1) % (1 << 20);
}
