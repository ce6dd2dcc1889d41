//go:build !noffmpeg

#include "segment.h"

#include <stdlib.h>
#include <string.h>

pf_decoder *pf_segment_decoder(int threads, int64_t max_pixels, char error[PF_ERROR_SIZE])
{
    pf_decoder_options o = {.threads = threads, .strict = 1, .max_pixels = max_pixels};
    pf_library_forget();
    pf_decoder *d = calloc(1, sizeof *d);
    if (!d || pf_decoder_open(d, &o) < 0) {
        strcpy(error, d ? d->error : "no memory");
        if (d)
            pf_segment_close(d);
        return NULL;
    }
    return d;
}

/* What a decoder only complains about, such as a missing reference, is an error here. One thread decodes, this one. */
static int strictly(pf_decoder *d, int rc)
{
    if (rc < 0 || !pf_library_complained())
        return rc;
    pf_library_explain(AVERROR_INVALIDDATA, d->error);
    return AVERROR_INVALIDDATA;
}

int pf_segment_send(pf_decoder *d, const uint8_t *data, int size, int order)
{
    pf_library_forget();
    if (!data)
        return strictly(d, pf_decoder_send(d, NULL));
    int rc = av.av_new_packet(d->packet, size);
    if (rc < 0) {
        pf_library_explain(rc, d->error);
        return rc;
    }
    memcpy(d->packet->data, data, size);
    d->packet->pts = order;
    rc = pf_decoder_send(d, d->packet);
    av.av_packet_unref(d->packet);
    return strictly(d, rc);
}

int pf_segment_receive(pf_decoder *d, int *width, int *height, int *bt709, int64_t *order)
{
    pf_library_forget();
    int rc = strictly(d, pf_decoder_receive(d));
    if (rc > 0) {
        *width = d->frame->width;
        *height = d->frame->height;
        *bt709 = pf_is_bt709(d->frame);
        *order = d->frame->pts;
    }
    return rc;
}

void pf_segment_close(pf_decoder *d)
{
    pf_decoder_close(d);
    free(d);
}

struct pf_muxer {
    AVFormatContext *format;
    AVPacket *packet;
    AVRational step; /* a frame's time */
    uint8_t *bytes;
};

static int explain(int code, char *error)
{
    if (code < 0)
        pf_library_explain(code, error);
    return code;
}

static int describe(AVStream *s, int width, int height, AVRational rate, const uint8_t *headers, int size)
{
    AVCodecParameters *p = s->codecpar;
    p->codec_type = AVMEDIA_TYPE_VIDEO;
    p->codec_id = AV_CODEC_ID_H264;
    p->width = width;
    p->height = height;
    p->extradata = av.av_mallocz(size + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!p->extradata)
        return AVERROR(ENOMEM);
    memcpy(p->extradata, headers, size);
    p->extradata_size = size;
    s->time_base = (AVRational){rate.den, rate.num};
    s->avg_frame_rate = rate;
    return 0;
}

pf_muxer *pf_muxer_open(int width, int height, AVRational rate, const uint8_t *headers, int size, char error[PF_ERROR_SIZE])
{
    pf_library_forget();
    pf_muxer *m = calloc(1, sizeof *m);
    if (!m) {
        strcpy(error, "no memory");
        return NULL;
    }
    m->step = (AVRational){rate.den, rate.num};
    m->packet = av.av_packet_alloc();
    int rc = av.avformat_alloc_output_context2(&m->format, NULL, "mp4", NULL);
    AVStream *s = rc < 0 ? NULL : av.avformat_new_stream(m->format, NULL);
    if (rc >= 0)
        rc = s && m->packet ? describe(s, width, height, rate, headers, size) : AVERROR(ENOMEM);
    if (rc >= 0)
        rc = av.avio_open_dyn_buf(&m->format->pb);
    if (rc >= 0)
        rc = av.avformat_write_header(m->format, NULL);
    if (explain(rc, error) < 0) {
        pf_muxer_close(m);
        return NULL;
    }
    return m;
}

int pf_muxer_add(pf_muxer *m, const uint8_t *data, int size, int64_t pts, int64_t dts, int key, char error[PF_ERROR_SIZE])
{
    pf_library_forget();
    int rc = av.av_new_packet(m->packet, size);
    if (rc < 0)
        return explain(rc, error);
    memcpy(m->packet->data, data, size);
    m->packet->pts = pts;
    m->packet->dts = dts;
    m->packet->duration = 1;
    m->packet->flags = key ? AV_PKT_FLAG_KEY : 0;
    av.av_packet_rescale_ts(m->packet, m->step, m->format->streams[0]->time_base);
    rc = av.av_write_frame(m->format, m->packet);
    av.av_packet_unref(m->packet);
    return explain(rc, error);
}

int pf_muxer_end(pf_muxer *m, const uint8_t **data, int *size, char error[PF_ERROR_SIZE])
{
    pf_library_forget();
    int rc = explain(av.av_write_trailer(m->format), error);
    *size = av.avio_close_dyn_buf(m->format->pb, &m->bytes);
    m->format->pb = NULL;
    *data = m->bytes;
    return rc;
}

void pf_muxer_close(pf_muxer *m)
{
    if (m->format && m->format->pb)
        av.avio_close_dyn_buf(m->format->pb, &m->bytes);
    av.avformat_free_context(m->format);
    av.av_packet_free(&m->packet);
    av.av_free(m->bytes);
    free(m);
}
