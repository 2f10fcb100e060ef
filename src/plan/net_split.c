// net_split.c - how candidates are cut into panels, and how threads share a rollout.
//
// Threads that take candidates of their own never wait for each other, but few candidates on many
// threads leave vectors half empty. A team takes more candidates together, in full vectors, and
// splits every product's groups of output features; in return its members meet after each product.
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

// A meeting takes about a microsecond, more with many members. What else a team loses, by reading
// what others wrote and by waiting for the slowest, is taken to be 3 % and half a percent a member.
static double team_cost(const plan_net* net, int threads, int members, int n) {
    const net_kernels* k = net->kernels;
    int teams = threads / members, units = (n + k->unit - 1) / k->unit;
    int share = (units + teams - 1) / teams, most = plan_net_block_lanes(net) * members / k->unit;
    int blocks = net_blocks(share, most);
    double lanes = 0, meetings = 4 + 3 * (net->shape.blocks + (net->shape.spatial > 0));
    for (int b = 0; b < blocks; b++)
        lanes += panels_cost(
            k, net_block_from(k, share, blocks, b + 1) - net_block_from(k, share, blocks, b));
    double cost = lanes * weights_each(net, members);
    if (members == 1) return cost;
    return (1.03 + 0.005 * members) * cost + blocks * meetings * k->speed * (1 + 0.1 * members);
}

int plan_net_members(const plan_net* net, int threads, int n) {
    int best = 1;
    double least = team_cost(net, threads, 1, n);
    for (int members = 2; members <= threads && members <= PLAN_TEAM_MOST; members++) {
        double cost = team_cost(net, threads, members, n);
        if (cost < least) {
            least = cost;
            best = members;
        }
    }
    return best;
}
