#include "encoder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x264.h>

struct pf_encoder {
    x264_t *x264;
    enum pf_method method;
    int macroblocks;
    float *offsets; /* of macroblocks, from the frame's quantiser */
    uint8_t *unit;
    size_t room;
    char error[256];
};

int pf_build(void) { return X264_BUILD; }

/* Keeps the last message without its end of line. */
static void keep_message(void *error, int level, const char *format, va_list args)
{
    (void)level;
    int n = vsnprintf(error, sizeof((pf_encoder *)0)->error, format, args);
    char *text = error;
    for (size_t i = strlen(text); n > 0 && i > 0 && text[i - 1] == '\n'; i--)
        text[i - 1] = 0;
}

static void set_quality(x264_param_t *p, const pf_settings *s)
{
    p->analyse.i_chroma_qp_offset = s->chroma_offset;
    if (s->ip_ratio)
        p->rc.f_ip_factor = s->ip_ratio;
    if (s->pb_ratio)
        p->rc.f_pb_factor = s->pb_ratio;
    switch (s->method) {
    case PF_QP:
        p->rc.i_rc_method = X264_RC_CQP;
        p->rc.i_qp_constant = s->quality;
        break;
    case PF_CRF:
        p->rc.i_rc_method = X264_RC_CRF;
        p->rc.f_rf_constant = s->quality;
        break;
    case PF_MAPS:
        /* Offsets of macroblocks are looked at with adaptive quantisation alone, which a constant quantiser or a
           strength of 0 turns off: so it is on, of a strength that changes nothing, and each frame's quantiser is
           forced. */
        p->rc.i_rc_method = X264_RC_CRF;
        p->rc.i_aq_mode = X264_AQ_VARIANCE;
        p->rc.f_aq_strength = 1e-6f;
        p->rc.b_mb_tree = 0;
        p->rc.i_qp_min = 0;
        p->rc.i_qp_max = 51;
        break;
    }
}

static int set_params(x264_param_t *p, const pf_settings *s)
{
    if (x264_param_default_preset(p, s->preset, NULL) < 0)
        return -1;
    p->i_width = s->width;
    p->i_height = s->height;
    p->i_csp = X264_CSP_I420;
    p->i_fps_num = s->rate_num;
    p->i_fps_den = s->rate_den;
    p->b_vfr_input = 0;
    p->i_threads = s->threads;
    p->b_deterministic = 1;
    p->b_annexb = 1;
    p->b_repeat_headers = 1;
    p->i_keyint_max = s->frames;
    p->i_bframe = s->bframes;
    p->i_bframe_bias = s->b_bias;
    if (s->bt709)
        p->vui.i_colmatrix = 1;
    set_quality(p, s);
    return 0;
}

pf_encoder *pf_open(const pf_settings *s, char *error, size_t error_size)
{
    x264_param_t p;
    pf_encoder *e = calloc(1, sizeof *e);
    int rc = e ? set_params(&p, s) : -1;
    if (e) {
        e->method = s->method;
        e->macroblocks = ((s->width + 15) / 16) * ((s->height + 15) / 16);
        e->offsets = calloc(e->macroblocks, sizeof *e->offsets);
        p.pf_log = keep_message;
        p.p_log_private = e->error;
        p.i_log_level = X264_LOG_ERROR;
    }
    if (rc == 0 && e->offsets)
        e->x264 = x264_encoder_open(&p);
    if (!e || !e->x264) {
        snprintf(error, error_size, "%s", e && e->error[0] ? e->error : "it cannot be opened");
        if (e)
            pf_close(e);
        return NULL;
    }
    return e;
}

/* Forces the frame's quantiser to the coarsest of the map, and makes offsets of the others. */
static void set_map(pf_encoder *e, x264_picture_t *in, const uint8_t *quantisers)
{
    int base = 0;
    for (int i = 0; i < e->macroblocks; i++)
        base = quantisers[i] > base ? quantisers[i] : base;
    for (int i = 0; i < e->macroblocks; i++)
        e->offsets[i] = (float)quantisers[i] - (float)base;
    in->i_qpplus1 = base + 1;
    in->prop.quant_offsets = e->offsets; /* read before x264_encoder_encode returns */
}

/* Copies NAL units without SEI, which is x264's own description of 700 bytes. */
static int keep_unit(pf_encoder *e, const x264_nal_t *nal, int count, int size, pf_unit *unit)
{
    if ((size_t)size > e->room) {
        uint8_t *more = realloc(e->unit, size);
        if (!more) {
            snprintf(e->error, sizeof e->error, "no memory for %d bytes", size);
            return -1;
        }
        e->unit = more;
        e->room = size;
    }
    unit->data = e->unit;
    for (int i = 0; i < count; i++) {
        if (nal[i].i_type == NAL_SEI)
            continue;
        memcpy(e->unit + unit->size, nal[i].p_payload, nal[i].i_payload);
        unit->size += nal[i].i_payload;
    }
    return 1;
}

int pf_encode(pf_encoder *e, const pf_picture *picture, pf_unit *unit)
{
    x264_picture_t in, out;
    x264_nal_t *nal;
    int count;
    memset(unit, 0, sizeof *unit);
    if (!picture && x264_encoder_delayed_frames(e->x264) == 0)
        return 0;
    x264_picture_init(&in);
    if (picture) {
        in.img.i_csp = X264_CSP_I420;
        in.img.i_plane = 3;
        for (int i = 0; i < 3; i++) {
            in.img.plane[i] = (uint8_t *)picture->plane[i];
            in.img.i_stride[i] = picture->stride[i];
        }
        in.i_pts = picture->order;
        if (e->method == PF_MAPS)
            set_map(e, &in, picture->quantisers);
    }
    int size = x264_encoder_encode(e->x264, &nal, &count, picture ? &in : NULL, &out);
    if (size < 0)
        return -1;
    unit->order = out.i_pts;
    return size == 0 ? 1 : keep_unit(e, nal, count, size, unit);
}

const char *pf_error(const pf_encoder *e) { return e->error[0] ? e->error : "it failed and does not say why"; }

void pf_close(pf_encoder *e)
{
    if (e->x264)
        x264_encoder_close(e->x264);
    free(e->offsets);
    free(e->unit);
    free(e);
}
