/* Files and cameras, frame by frame. */
#ifndef PF_FFMPEG_CLIP_H
#define PF_FFMPEG_CLIP_H

#include <stdatomic.h>

#include "picture.h"

typedef struct pf_clip pf_clip;

typedef struct {
    int width, height;
    AVRational rate; /* frames in a second on average; 0/1: unknown */
    int64_t duration; /* in nanoseconds; negative: unknown */
    int joined; /* a file of a format whose files are joined by appending one to the other */
    const char *codec;
    int tracks, bits;       /* bits: of a pixel in the codec's memory */
    int delay;              /* frames that are decoded before one that is shown before them */
    const uint8_t *headers; /* the parameter sets, as the file has them; they live as long as the clip */
    int headers_size;
} pf_clip_info;

typedef struct {
    int width, height, bt709;
    int64_t time; /* in nanoseconds since the beginning; INT64_MIN: unknown */
} pf_frame;

pf_clip *pf_clip_new(void);

/* Makes the call under way on another thread, and those that follow, end early; or no longer. */
void pf_clip_interrupt(pf_clip *c, int yes);

/* The errors are negative; pf_clip_error tells them. fd is a regular file's, or -1 with a URL; timeout, in nanoseconds,
   is for each call on a URL, and for each packet until there is a key frame. Nothing is decoded yet: info has the tracks and, if they are known, the codec and the headers. */
int pf_clip_connect(pf_clip *c, int fd, const char *url, int64_t timeout, pf_clip_info *info);

/* Finds out all of info, for which some frames are decoded. */
int pf_clip_open(pf_clip *c, int threads, int64_t max_pixels, pf_clip_info *info);

/* Bounds what decoding may hold: a frame's pixels, and frames. Beyond it pf_clip_next fails. */
void pf_clip_bound(pf_clip *c, int64_t pixels, int frames);

/* Decodes what was read. The result is 1 with a frame, 0 at the end, PF_CLIP_KEYLESS when packets of a camera come, and none of them is a key frame yet:
   the next call goes on; or PF_CLIP_EMPTY when more is to be read before the next call. */
enum { PF_CLIP_KEYLESS = 2, PF_CLIP_EMPTY = 3 };
int pf_clip_next(pf_clip *c, pf_frame *frame);

/* Reads a packet, or what is none of the stream. The timeout is that of all calls for a frame, until there is a key frame for each packet. */
int pf_clip_read(pf_clip *c);

/* Writes the frame's pixels. */
int pf_clip_copy(pf_clip *c, const pf_picture *to);

/* The next frame is a key frame at or before this time, in nanoseconds. */
int pf_clip_seek(pf_clip *c, int64_t time);

/* Packets and frames that were not decoded, or not well. */
int64_t pf_clip_damaged(const pf_clip *c);

/* The bytes of the stream's packets that were read. */
int64_t pf_clip_bytes(const pf_clip *c);

const char *pf_clip_error(const pf_clip *c);

/* Where a camera that could not be opened redirects to, which is not followed; empty: nowhere. */
const char *pf_clip_redirected(const pf_clip *c);

void pf_clip_close(pf_clip *c);

#endif
