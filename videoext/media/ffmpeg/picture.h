/* Decoding, and pictures in the memory of the caller. */
#ifndef PF_FFMPEG_PICTURE_H
#define PF_FFMPEG_PICTURE_H

#include <stdatomic.h>

#include "library.h"

/* A picture of YUV 4:2:0, or of BGR in plane 0. */
typedef struct {
    int width, height, bt709;
    uint8_t *plane[3];
    int stride[3];
} pf_picture;

typedef struct {
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *convert;
    int64_t damaged; /* packets and frames that were not decoded, or not well */
    int64_t pixels;  /* of a frame, and frames that the codec may hold at a time; 0: not bounded here */
    int most;
    atomic_int held; /* frames that it holds */
    int greedy;      /* it asked for more: nothing comes of it any longer */
    char error[PF_ERROR_SIZE];
} pf_decoder;

typedef struct {
    const AVCodecParameters *parameters; /* NULL: of H.264 in annex B */
    int threads, strict;                 /* strict: damage is an error */
    int64_t max_pixels;
} pf_decoder_options;

int pf_decoder_open(pf_decoder *d, const pf_decoder_options *o);
void pf_decoder_close(pf_decoder *d);

/* Bounds what the codec may hold from now on. */
void pf_decoder_bound(pf_decoder *d, int64_t pixels, int frames);

/* Sends the packet, or with NULL the end. */
int pf_decoder_send(pf_decoder *d, const AVPacket *packet);

/* The result is 1 with d->frame, 0 if more packets are needed or none are left, or an error. */
int pf_decoder_receive(pf_decoder *d);

/* Writes d->frame to a picture of its size in limited range. */
int pf_decoder_copy(pf_decoder *d, const pf_picture *to);

int pf_is_bt709(const AVFrame *frame);

/* pf_scale scales by bicubic interpolation, to BGR if bgr is set. */
int pf_scale(struct SwsContext **cached, const pf_picture *from, const pf_picture *to, int bgr);
void pf_scale_free(struct SwsContext *cached);

#endif
