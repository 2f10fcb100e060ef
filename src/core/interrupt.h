// interrupt.h - SIGINT, SIGTERM and SIGHUP. The program catches them; a library never does, and
// there interrupt_seen() stays 0.
//
// A signal ends the program at once with status 128 + its number, one sentence and no temporary
// file. Work that has something to save holds it: the first signal is then only noted, and the work
// stops at the next good place with FIRM_E_STOPPED. A second one ends the program at once.
#ifndef CORE_INTERRUPT_H
#define CORE_INTERRUPT_H

#include <sys/types.h>

// To be called once. The sentence is `before`, the signal's name, `after`. SIGXFSZ is ignored from
// here on: a file that may not grow is then an error of its write. A signal that the caller of the
// program ignores (nohup, a shell's background) stays ignored.
void interrupt_catch(const char* before, const char* after);

void interrupt_hold(void);
void interrupt_release(void);  // ends the program now if a signal came since interrupt_hold
int interrupt_seen(void);      // the signal noted while held; 0: none
const char* interrupt_name(int signal);

// fork() whose child gets every signal that comes to us, also a second one, until it is reaped with
// interrupt_wait(). It fails with EINTR once a signal was noted. At most 64 at a time.
pid_t interrupt_fork(void);
pid_t interrupt_wait(int* code);  // waitpid() of any child

#endif
