/* Sound of files in memory, piece by piece. */
#ifndef PF_FFMPEG_SOUND_H
#define PF_FFMPEG_SOUND_H

#include <stdatomic.h>

#include "library.h"

typedef struct pf_sound pf_sound;

pf_sound *pf_sound_new(void);

/* Makes the call under way on another thread, and those that follow, end early; or no longer. */
void pf_sound_interrupt(pf_sound *s, int yes);

/* The errors are negative; pf_sound_error tells them. The file stays where it is until pf_sound_close. */
int pf_sound_open(pf_sound *s, const uint8_t *file, int64_t size, int *rate);

/* Writes the means of the channels. The result is how many there are, at most room; 0 at the end. */
int pf_sound_next(pf_sound *s, float *into, int room);

const char *pf_sound_error(const pf_sound *s);

void pf_sound_close(pf_sound *s);

#endif
