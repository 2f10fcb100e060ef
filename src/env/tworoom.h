// tworoom.h - TwoRoom's own data, shared by its dynamics (tworoom.c) and its picture
// (render/tworoom.c).
#ifndef ENV_TWOROOM_H
#define ENV_TWOROOM_H

#include "env/env.h"

// World geometry in pixels, x right, y down, pixel centres at integers.
#define TWOROOM_RADIUS 7.0f      // of the agent, and the deviation of its drawn dot
#define TWOROOM_WALL_X 112.0f    // centre of the wall; it covers columns 107 .. 117
#define TWOROOM_DOOR_Y 49.0f     // centre of the door; it covers rows 35 .. 63
#define TWOROOM_TOLERANCE 16.0f  // success and episode end: distance below
enum {
    TWOROOM_BORDER = 14,      // thickness of the frame around the rooms
    TWOROOM_BORDER_LINE = 4,  // thickness of the black line drawn at its inner edge
    TWOROOM_WALL_HALF = 5,
    TWOROOM_DOOR_HALF = 14
};

extern const env_spec tworoom_spec;

// Draws the rooms and the agent at (x, y) into (224, 224, 3) bytes.
void tworoom_draw(float x, float y, uint8_t* rgb);

#endif
