/* Segments in memory: decoded, and put into MP4. */
#ifndef PF_FFMPEG_SEGMENT_H
#define PF_FFMPEG_SEGMENT_H

#include "picture.h"

pf_decoder *pf_segment_decoder(int threads, int64_t max_pixels, char error[PF_ERROR_SIZE]);

/* Sends the access unit of a frame, or with NULL the end. The result is negative on failure. */
int pf_segment_send(pf_decoder *d, const uint8_t *data, int size, int order);

/* The result is 1 with a frame's size, and order as it was sent; 0 if there is none yet, or at the end. */
int pf_segment_receive(pf_decoder *d, int *width, int *height, int *bt709, int64_t *order);

void pf_segment_close(pf_decoder *d);

typedef struct pf_muxer pf_muxer;

/* headers are the parameter sets in annex B. */
pf_muxer *pf_muxer_open(int width, int height, AVRational rate, const uint8_t *headers, int size, char error[PF_ERROR_SIZE]);

/* Times count frames. */
int pf_muxer_add(pf_muxer *m, const uint8_t *data, int size, int64_t pts, int64_t dts, int key, char error[PF_ERROR_SIZE]);

/* Ends the file; the bytes live until the muxer is closed. */
int pf_muxer_end(pf_muxer *m, const uint8_t **data, int *size, char error[PF_ERROR_SIZE]);
void pf_muxer_close(pf_muxer *m);

#endif
