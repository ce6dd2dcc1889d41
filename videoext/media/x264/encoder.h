/* One segment's encoder over libx264. */
#ifndef PF_X264_ENCODER_H
#define PF_X264_ENCODER_H

#include <stddef.h>
#include <stdint.h>

enum pf_method { PF_QP, PF_CRF, PF_MAPS };

typedef struct {
    int width, height, frames, threads, bt709;
    uint32_t rate_num, rate_den; /* frames in a second */
    const char *preset;
    enum pf_method method;
    double quality;                /* the quantiser or the rate factor */
    int bframes, b_bias, chroma_offset;
    double ip_ratio, pb_ratio;     /* 0: x264's */
} pf_settings;

typedef struct {
    const uint8_t *plane[3];
    int stride[3];
    int order;                /* which frame of the segment */
    const uint8_t *quantisers; /* of macroblocks, for PF_MAPS */
} pf_picture;

typedef struct pf_encoder pf_encoder;

/* What one call encoded; it is valid until the next. No bytes: nothing is ready yet. */
typedef struct {
    const uint8_t *data;
    size_t size;
    int order;
} pf_unit;

int pf_build(void); /* the version of the API that this is compiled for */

pf_encoder *pf_open(const pf_settings *settings, char *error, size_t error_size);

/* Takes one more picture, or with NULL goes on with what it holds back. The result is negative on failure, and with
   NULL 0 when nothing is left. */
int pf_encode(pf_encoder *e, const pf_picture *picture, pf_unit *unit);

const char *pf_error(const pf_encoder *e);

void pf_close(pf_encoder *e);

#endif
