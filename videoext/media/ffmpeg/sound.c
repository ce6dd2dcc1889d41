//go:build !noffmpeg

#include "sound.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pf_sound {
    AVFormatContext *format;
    AVStream *stream;
    AVIOContext *io;
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *frame;
    const uint8_t *file;
    int64_t position, size; /* in the file */
    int rate, channels;
    int given; /* of the frame's samples */
    int idle;  /* packets since the last samples */
    int ended;
    atomic_int stop;
    char error[PF_ERROR_SIZE];
};

/* What files may be, and what is in them: none that name other files and hosts. */
static const char formats[] = "wav,w64,flac,mp3,ogg,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm";
static const char codecs[] = "flac,mp3,mp3float,vorbis,opus,aac,alac,pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,pcm_alaw,pcm_mulaw";

enum {
    MOST_TRACKS = 16,
    MOST_CHANNELS = 64,
    MOST_SAMPLES = 1 << 20, /* of a frame */
    MOST_IDLE = 1 << 14,    /* packets without samples */
};

static int failed(pf_sound *s, int code)
{
    pf_library_explain(code, s->error);
    return code;
}

static int refused(pf_sound *s, const char *why)
{
    snprintf(s->error, sizeof s->error, "%s", why);
    return AVERROR(EINVAL);
}

static int interrupted(void *sound) { return atomic_load(&((pf_sound *)sound)->stop); }

static int read_memory(void *sound, uint8_t *into, int size)
{
    pf_sound *s = sound;
    if (interrupted(s))
        return AVERROR_EXIT;
    int64_t left = s->size - s->position;
    if (left <= 0)
        return AVERROR_EOF;
    int n = left < size ? (int)left : size;
    memcpy(into, s->file + s->position, n);
    s->position += n;
    return n;
}

static int64_t seek_memory(void *sound, int64_t offset, int whence)
{
    pf_sound *s = sound;
    int64_t base = whence == SEEK_CUR ? s->position : whence == SEEK_END ? s->size : 0;
    if (whence == AVSEEK_SIZE)
        return s->size;
    if ((whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) || offset > INT64_MAX - base || base + offset < 0)
        return AVERROR(EINVAL);
    return s->position = base + offset;
}

pf_sound *pf_sound_new(void) { return calloc(1, sizeof(pf_sound)); }

void pf_sound_interrupt(pf_sound *s, int yes) { atomic_store(&s->stop, yes); }

static int open_input(pf_sound *s)
{
    enum { BUFFER = 32 << 10 };
    uint8_t *buffer = av.av_malloc(BUFFER);
    if (buffer && !(s->io = av.avio_alloc_context(buffer, BUFFER, 0, s, read_memory, NULL, seek_memory)))
        av.av_free(buffer);
    if (!s->io || !(s->format = av.avformat_alloc_context()))
        return AVERROR(ENOMEM);
    s->format->pb = s->io;
    s->format->interrupt_callback = (AVIOInterruptCB){interrupted, s};
    s->format->max_streams = MOST_TRACKS;
    AVDictionary *options = NULL;
    av.av_dict_set(&options, "format_whitelist", formats, 0);
    av.av_dict_set(&options, "codec_whitelist", codecs, 0);
    av.av_dict_set(&options, "protocol_whitelist", "none", 0);
    int rc = av.avformat_open_input(&s->format, NULL, NULL, &options); /* frees s->format when it fails */
    av.av_dict_free(&options);
    return rc;
}

/* Chooses the stream and leaves the others out. */
static int choose_stream(pf_sound *s)
{
    int rc = av.avformat_find_stream_info(s->format, NULL);
    if (rc < 0)
        return failed(s, rc);
    if ((rc = av.av_find_best_stream(s->format, AVMEDIA_TYPE_AUDIO, -1, -1, NULL, 0)) < 0)
        return refused(s, "it has no sound");
    for (unsigned i = 0; i < s->format->nb_streams; i++)
        s->format->streams[i]->discard = (int)i == rc ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
    s->stream = s->format->streams[rc];
    return 0;
}

static int open_codec(pf_sound *s)
{
    const AVCodec *codec = av.avcodec_find_decoder(s->stream->codecpar->codec_id);
    if (!codec || !pf_library_lists(codecs, codec->name))
        return failed(s, AVERROR_DECODER_NOT_FOUND);
    s->codec = av.avcodec_alloc_context3(codec);
    s->packet = av.av_packet_alloc();
    s->frame = av.av_frame_alloc();
    if (!s->codec || !s->packet || !s->frame)
        return failed(s, AVERROR(ENOMEM));
    int rc = av.avcodec_parameters_to_context(s->codec, s->stream->codecpar);
    if (rc < 0)
        return failed(s, rc);
    s->codec->pkt_timebase = s->stream->time_base;
    s->codec->thread_count = 1;
    s->codec->max_samples = MOST_SAMPLES;
    rc = av.avcodec_open2(s->codec, codec, NULL);
    return rc < 0 ? failed(s, rc) : 0;
}

/* Decodes until there are samples. The result is 1, or 0 at the end. */
static int decode(pf_sound *s)
{
    for (;;) {
        av.av_frame_unref(s->frame);
        s->given = 0;
        int rc = av.avcodec_receive_frame(s->codec, s->frame);
        if (rc == 0 && s->frame->nb_samples > 0) {
            s->idle = 0;
            return 1;
        }
        if (rc == AVERROR_EOF)
            return 0;
        if (interrupted(s))
            return failed(s, AVERROR_EXIT);
        if (++s->idle > MOST_IDLE)
            return refused(s, "it has packets without sound");
        if (rc != AVERROR(EAGAIN)) /* a packet that cannot be decoded is left out */
            continue;
        rc = s->ended ? AVERROR_EOF : av.av_read_frame(s->format, s->packet);
        if (rc == AVERROR_EOF) {
            s->ended = 1;
            av.avcodec_send_packet(s->codec, NULL);
            continue;
        }
        if (rc < 0 && rc != AVERROR(EAGAIN))
            return failed(s, rc);
        if (rc == 0 && s->packet->stream_index == s->stream->index)
            av.avcodec_send_packet(s->codec, s->packet);
        av.av_packet_unref(s->packet);
    }
}

static int is_known(int format) { return format >= AV_SAMPLE_FMT_U8 && format < AV_SAMPLE_FMT_NB; }

/* A sample of a format, packed or planar, between -1 and 1. */
static float sample(int format, const uint8_t *at, int i)
{
    switch (format) {
    case AV_SAMPLE_FMT_U8: case AV_SAMPLE_FMT_U8P: return (at[i] - 128) / 128.f;
    case AV_SAMPLE_FMT_S16: case AV_SAMPLE_FMT_S16P: return ((const int16_t *)at)[i] / 32768.f;
    case AV_SAMPLE_FMT_S32: case AV_SAMPLE_FMT_S32P: return ((const int32_t *)at)[i] / 2147483648.f;
    case AV_SAMPLE_FMT_S64: case AV_SAMPLE_FMT_S64P: return ((const int64_t *)at)[i] / 9223372036854775808.f;
    case AV_SAMPLE_FMT_DBL: case AV_SAMPLE_FMT_DBLP: return ((const double *)at)[i];
    default: return ((const float *)at)[i];
    }
}

static int is_planar(int format)
{
    return (format >= AV_SAMPLE_FMT_U8P && format <= AV_SAMPLE_FMT_DBLP) || format == AV_SAMPLE_FMT_S64P;
}

static float mean(const AVFrame *f, int channels, int i)
{
    float sum = 0;
    for (int c = 0; c < channels; c++)
        sum += is_planar(f->format) ? sample(f->format, f->extended_data[c], i) : sample(f->format, f->extended_data[0], i * channels + c);
    return channels == 1 ? sum : sum * (1.f / channels);
}

int pf_sound_open(pf_sound *s, const uint8_t *file, int64_t size, int *rate)
{
    pf_library_forget();
    s->file = file;
    s->size = size;
    int rc = open_input(s);
    if (rc < 0)
        return failed(s, rc);
    if ((rc = choose_stream(s)) < 0 || (rc = open_codec(s)) < 0)
        return rc;
    /* Some formats say their rate in the first samples alone. */
    if ((rc = decode(s)) <= 0)
        return rc < 0 ? rc : refused(s, "it has no samples");
    s->rate = s->frame->sample_rate;
    s->channels = s->frame->ch_layout.nb_channels;
    if (s->channels < 1 || s->channels > MOST_CHANNELS)
        return refused(s, "it has too many channels");
    *rate = s->rate;
    return 0;
}

int pf_sound_next(pf_sound *s, float *into, int room)
{
    pf_library_forget();
    int n = 0;
    while (n < room) {
        if (s->given == s->frame->nb_samples) {
            int rc = decode(s);
            if (rc < 0)
                return rc;
            if (rc == 0)
                break;
        }
        if (s->frame->sample_rate != s->rate || s->frame->ch_layout.nb_channels != s->channels || !is_known(s->frame->format))
            return refused(s, "its rate or channels change");
        while (n < room && s->given < s->frame->nb_samples)
            into[n++] = mean(s->frame, s->channels, s->given++);
    }
    return n;
}

const char *pf_sound_error(const pf_sound *s) { return s->error; }

void pf_sound_close(pf_sound *s)
{
    av.avcodec_free_context(&s->codec);
    av.av_packet_free(&s->packet);
    av.av_frame_free(&s->frame);
    av.avformat_close_input(&s->format);
    if (s->io)
        av.av_freep(&s->io->buffer);
    av.avio_context_free(&s->io);
    free(s);
}
