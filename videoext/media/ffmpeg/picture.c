//go:build !noffmpeg

#include "picture.h"

#include <stdio.h>
#include <string.h>

static int failed(pf_decoder *d, int code)
{
    if (d->greedy) /* whatever the codec made of that */
        return AVERROR(ENOMEM);
    pf_library_explain(code, d->error);
    return code;
}

static void let_go(void *held, uint8_t *unused)
{
    (void)unused;
    atomic_fetch_sub((atomic_int *)held, 1);
}

/* Gives the codec memory for a frame, within its bound. It keeps the frame as long as the frame's opaque_ref. */
static int lend(AVCodecContext *c, AVFrame *f, int flags)
{
    pf_decoder *d = c->opaque;
    if (d->most && ((int64_t)f->width * f->height > d->pixels || atomic_load(&d->held) >= d->most)) {
        snprintf(d->error, sizeof d->error, "it asks for frame %d of %d x %d pixels, and said at its beginning that %d of %lld pixels are enough",
                 atomic_load(&d->held) + 1, f->width, f->height, d->most, (long long)d->pixels);
        d->greedy = 1;
        return AVERROR(ENOMEM);
    }
    int rc = av.avcodec_default_get_buffer2(c, f, flags);
    if (rc == 0 && (f->opaque_ref = av.av_buffer_create(NULL, 0, let_go, &d->held, 0)))
        atomic_fetch_add(&d->held, 1);
    return rc;
}

void pf_decoder_bound(pf_decoder *d, int64_t pixels, int frames)
{
    d->pixels = pixels;
    d->most = frames;
}

int pf_decoder_open(pf_decoder *d, const pf_decoder_options *o)
{
    const AVCodec *codec = av.avcodec_find_decoder(o->parameters ? o->parameters->codec_id : AV_CODEC_ID_H264);
    if (!codec)
        return failed(d, AVERROR_DECODER_NOT_FOUND);
    d->codec = av.avcodec_alloc_context3(codec);
    d->packet = av.av_packet_alloc();
    d->frame = av.av_frame_alloc();
    if (!d->codec || !d->packet || !d->frame)
        return failed(d, AVERROR(ENOMEM));
    int rc = o->parameters ? av.avcodec_parameters_to_context(d->codec, o->parameters) : 0;
    if (rc < 0)
        return failed(d, rc);
    d->codec->thread_count = o->threads;
    d->codec->max_pixels = o->max_pixels;
    d->codec->opaque = d;
    d->codec->get_buffer2 = lend;
    if (o->strict)
        d->codec->err_recognition = AV_EF_EXPLODE | AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER;
    rc = av.avcodec_open2(d->codec, codec, NULL);
    return rc < 0 ? failed(d, rc) : 0;
}

void pf_decoder_close(pf_decoder *d)
{
    av.sws_freeContext(d->convert);
    av.avcodec_free_context(&d->codec);
    av.av_packet_free(&d->packet);
    av.av_frame_free(&d->frame);
    d->convert = NULL;
}

int pf_decoder_send(pf_decoder *d, const AVPacket *packet)
{
    int rc = av.avcodec_send_packet(d->codec, packet);
    return rc < 0 && rc != AVERROR_EOF ? failed(d, rc) : 0;
}

int pf_decoder_receive(pf_decoder *d)
{
    av.av_frame_unref(d->frame);
    int rc = av.avcodec_receive_frame(d->codec, d->frame);
    if (rc == AVERROR(EAGAIN) || rc == AVERROR_EOF)
        return 0;
    if (rc < 0)
        return failed(d, rc);
    if (d->frame->decode_error_flags || d->frame->flags & AV_FRAME_FLAG_CORRUPT)
        d->damaged++;
    return 1;
}

int pf_is_bt709(const AVFrame *frame) { return frame->colorspace == AVCOL_SPC_BT709; }

static const int *coefficients(int bt709) { return av.sws_getCoefficients(bt709 ? SWS_CS_ITU709 : SWS_CS_ITU601); }

/* Prepares a conversion; the matrix is that of the source on both sides, and what comes out has limited range. */
static int prepare(struct SwsContext **c, int from_format, int width, int height, int full_range, int bt709, int to_format, int to_width, int to_height)
{
    *c = av.sws_getCachedContext(*c, width, height, from_format, to_width, to_height, to_format, SWS_BICUBIC, NULL, NULL, NULL);
    if (!*c)
        return AVERROR(EINVAL);
    av.sws_setColorspaceDetails(*c, coefficients(bt709), full_range, coefficients(bt709), to_format == AV_PIX_FMT_BGR24, 0, 1 << 16, 1 << 16);
    return 0;
}

static void copy_plane(uint8_t *to, int to_stride, const uint8_t *from, int from_stride, int width, int height)
{
    for (int y = 0; y < height; y++)
        memcpy(to + (ptrdiff_t)y * to_stride, from + (ptrdiff_t)y * from_stride, width);
}

int pf_decoder_copy(pf_decoder *d, const pf_picture *to)
{
    const AVFrame *f = d->frame;
    int full_range = f->color_range == AVCOL_RANGE_JPEG || f->format == AV_PIX_FMT_YUVJ420P || f->format == AV_PIX_FMT_YUVJ422P || f->format == AV_PIX_FMT_YUVJ444P;
    if (f->format == AV_PIX_FMT_YUV420P && !full_range) {
        for (int i = 0; i < 3; i++)
            copy_plane(to->plane[i], to->stride[i], f->data[i], f->linesize[i], i ? (to->width + 1) / 2 : to->width, i ? (to->height + 1) / 2 : to->height);
        return 0;
    }
    int rc = prepare(&d->convert, f->format, f->width, f->height, full_range, pf_is_bt709(f), AV_PIX_FMT_YUV420P, to->width, to->height);
    if (rc == 0)
        rc = av.sws_scale(d->convert, (const uint8_t *const *)f->data, f->linesize, 0, f->height, to->plane, to->stride);
    return rc < 0 ? failed(d, rc) : 0;
}

int pf_scale(struct SwsContext **cached, const pf_picture *from, const pf_picture *to, int bgr)
{
    int rc = prepare(cached, AV_PIX_FMT_YUV420P, from->width, from->height, 0, from->bt709, bgr ? AV_PIX_FMT_BGR24 : AV_PIX_FMT_YUV420P, to->width, to->height);
    return rc < 0 ? rc : av.sws_scale(*cached, (const uint8_t *const *)from->plane, from->stride, 0, from->height, to->plane, to->stride);
}

void pf_scale_free(struct SwsContext *cached) { av.sws_freeContext(cached); }
