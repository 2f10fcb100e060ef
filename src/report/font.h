// font.h - the built-in font of the animation; canvas_text() in canvas.h draws with it.
#ifndef REPORT_FONT_H
#define REPORT_FONT_H

enum { FONT_ADVANCE = 6 };  // dots from one character to the next

int font_dot(char c, int column,
             int row);  // 1 if the dot is set; unknown characters are question marks

#endif
