//go:build !noffmpeg

#include "clip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct pf_clip {
    pf_decoder decoder;
    AVFormatContext *format;
    AVStream *stream;
    AVIOContext *io;
    int fd;
    int64_t position, size; /* in the file */
    int64_t start;          /* the first frame's time stamp */
    int64_t stamp, elapsed; /* the last frame's, and since the first one, in the stream's units */
    int64_t timeout, deadline;
    int64_t patience; /* of the timeout, what reading has left for the frame */
    int64_t bytes; /* of packets that were read */
    int ended, keyed; /* keyed: a key frame has come, or it is a file */
    int began, full;  /* began: a frame is looked for; full: the decoder's packet was read, or the end, and not decoded yet */
    atomic_int stop;
    char redirected[1200];
};

static const AVRational nanoseconds = {1, 1000000000};

/* How many tracks a camera and a file may have. libavformat opens a decoder for each, of about a mebibyte. */
enum { CAMERA_TRACKS = 16, FILE_TRACKS = 64 };

/* What files may be, and what is in them: no playlists, which name other files and hosts. */
static const char formats[] = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ivf,h264,hevc,rtsp";
static const char codecs[] = "h264,hevc,mpeg4,mpeg2video,mpeg1video,mjpeg,vp8,vp9,libdav1d,av1";
static const char protocols[] = "tcp,tls";

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int interrupted(void *clip)
{
    pf_clip *c = clip;
    /* libavformat asks here first when the one connection to a camera is under way: it opens no other, where redirections lead. */
    if (c->format && c->format->protocol_whitelist)
        strcpy(c->format->protocol_whitelist, "-");
    return atomic_load(&c->stop) || (c->deadline && now() > c->deadline);
}

/* The camera has its time anew, for so many packets. */
static void wait_for(pf_clip *c, int packets) { c->deadline = c->timeout ? now() + packets * c->timeout : 0; }

static void begin(pf_clip *c)
{
    pf_library_forget();
    wait_for(c, 1);
}

static int failed(pf_clip *c, int code)
{
    if (interrupted(c)) /* whatever the libraries made of that */
        code = atomic_load(&c->stop) ? AVERROR_EXIT : AVERROR(ETIMEDOUT);
    snprintf(c->redirected, sizeof c->redirected, "%s", pf_library_redirected());
    if (c->timeout) /* a camera's: what the libraries say has its address in it, and what some other host answers */
        pf_library_forget();
    pf_library_explain(code, c->decoder.error);
    return code;
}

static int read_file(void *clip, uint8_t *into, int size)
{
    pf_clip *c = clip;
    if (interrupted(c))
        return AVERROR_EXIT;
    ssize_t n = pread(c->fd, into, size, c->position);
    if (n > 0)
        c->position += n;
    return n < 0 ? AVERROR(errno) : n == 0 ? AVERROR_EOF : (int)n;
}

static int64_t seek_file(void *clip, int64_t offset, int whence)
{
    pf_clip *c = clip;
    int64_t base = whence == SEEK_CUR ? c->position : whence == SEEK_END ? c->size : 0;
    if (whence == AVSEEK_SIZE)
        return c->size;
    if ((whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) || offset > INT64_MAX - base || base + offset < 0)
        return AVERROR(EINVAL);
    return c->position = base + offset;
}

static int open_file(pf_clip *c, int fd)
{
    enum { BUFFER = 32 << 10 };
    struct stat s;
    if (fstat(fd, &s) < 0)
        return AVERROR(errno);
    c->fd = fd;
    c->size = s.st_size;
    uint8_t *buffer = av.av_malloc(BUFFER);
    if (buffer && !(c->io = av.avio_alloc_context(buffer, BUFFER, 0, c, read_file, NULL, seek_file)))
        av.av_free(buffer);
    if (!c->io)
        return AVERROR(ENOMEM);
    c->format->pb = c->io;
    return 0;
}

pf_clip *pf_clip_new(void)
{
    pf_clip *c = calloc(1, sizeof *c);
    if (c)
        c->start = c->stamp = AV_NOPTS_VALUE;
    return c;
}

void pf_clip_interrupt(pf_clip *c, int yes) { atomic_store(&c->stop, yes); }

static int most_tracks(const char *url) { return url ? CAMERA_TRACKS : FILE_TRACKS; }

enum {
    PROBED = 3,     /* packets of a camera that tell its rate */
    LOOKED_AT = 12, /* that an opening has its time for: it ends with fewer where a key frame is among them; silence ends it by the option timeout */
};

static int open_input(pf_clip *c, int fd, const char *url)
{
    c->format = av.avformat_alloc_context();
    if (!c->format)
        return AVERROR(ENOMEM);
    c->format->interrupt_callback = (AVIOInterruptCB){interrupted, c};
    c->format->max_streams = most_tracks(url) + 1;
    int rc = url ? 0 : open_file(c, fd);
    if (rc < 0)
        return rc;
    AVDictionary *options = NULL;
    av.av_dict_set(&options, "format_whitelist", formats, 0);
    av.av_dict_set(&options, "codec_whitelist", codecs, 0);
    av.av_dict_set(&options, "protocol_whitelist", url ? protocols : "none", 0);
    if (url) {
        av.av_dict_set(&options, "rtsp_transport", "tcp", 0);
        av.av_dict_set(&options, "allowed_media_types", "video", 0);
        av.av_dict_set_int(&options, "timeout", c->timeout / 1000, 0);
        /* A camera's frames come in their time: few tell its rate. */
        av.av_dict_set_int(&options, "fpsprobesize", PROBED, 0);
    }
    /* Stamps that begin anew are told from those that go back, see elapsed_at. */
    av.av_dict_set_int(&options, "correct_ts_overflow", 0, 0);
    rc = av.avformat_open_input(&c->format, url, NULL, &options); /* frees c->format when it fails */
    av.av_dict_free(&options);
    return rc;
}

/* Chooses the stream and leaves the others out. */
static int choose_stream(pf_clip *c)
{
    wait_for(c, LOOKED_AT);
    int rc = av.avformat_find_stream_info(c->format, NULL);
    if (rc >= 0 && interrupted(c)) /* then it is content with less, and nothing more can be read */
        rc = AVERROR_EXIT;
    if (rc < 0)
        return rc;
    if ((rc = av.av_find_best_stream(c->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0)) < 0)
        return rc;
    for (unsigned i = 0; i < c->format->nb_streams; i++)
        c->format->streams[i]->discard = (int)i == rc ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
    c->stream = c->format->streams[rc];
    c->start = c->stream->start_time;
    return 0;
}

/* codec_is_known tells whether the decoder is one of those above, which libavformat alone heeds. */
static int codec_is_known(const AVCodecParameters *p)
{
    const AVCodec *codec = av.avcodec_find_decoder(p->codec_id);
    return codec && pf_library_lists(codecs, codec->name);
}

/* bits_of is how many bits a pixel has in memory; of a format that is not known, those of the largest. */
static int bits_of(int format)
{
    const AVPixFmtDescriptor *d = av.av_pix_fmt_desc_get(format);
    return d ? av.av_get_padded_bits_per_pixel(d) : 64;
}

void pf_clip_bound(pf_clip *c, int64_t pixels, int frames) { pf_decoder_bound(&c->decoder, pixels, frames); }

int pf_clip_connect(pf_clip *c, int fd, const char *url, int64_t timeout, pf_clip_info *info)
{
    c->timeout = timeout;
    c->keyed = !url;
    begin(c);
    int rc = open_input(c, fd, url);
    if (rc < 0)
        return failed(c, rc);
    if (c->format->nb_streams > (unsigned)most_tracks(url)) {
        snprintf(c->decoder.error, sizeof c->decoder.error, "it has more than %d tracks", most_tracks(url));
        return AVERROR(EINVAL);
    }
    info->tracks = c->format->nb_streams;
    for (unsigned i = 0; i < c->format->nb_streams && !info->headers; i++) {
        const AVCodecParameters *p = c->format->streams[i]->codecpar;
        const AVCodec *codec = p->codec_type == AVMEDIA_TYPE_VIDEO && p->extradata ? av.avcodec_find_decoder(p->codec_id) : NULL;
        if (codec) {
            info->codec = codec->name;
            info->headers = p->extradata;
            info->headers_size = p->extradata_size;
        }
    }
    return 0;
}

int pf_clip_open(pf_clip *c, int threads, int64_t max_pixels, pf_clip_info *info)
{
    begin(c);
    int rc = choose_stream(c);
    if (rc == 0 && !codec_is_known(c->stream->codecpar))
        rc = AVERROR_DECODER_NOT_FOUND;
    if (rc < 0)
        return failed(c, rc);
    pf_decoder_options o = {.parameters = c->stream->codecpar, .threads = threads, .max_pixels = max_pixels};
    if ((rc = pf_decoder_open(&c->decoder, &o)) < 0)
        return rc;
    info->width = c->stream->codecpar->width;
    info->height = c->stream->codecpar->height;
    info->tracks = c->format->nb_streams;
    info->bits = bits_of(c->stream->codecpar->format);
    info->delay = c->stream->codecpar->video_delay;
    info->headers = c->stream->codecpar->extradata;
    info->headers_size = c->stream->codecpar->extradata_size;
    info->rate = av.av_guess_frame_rate(c->format, c->stream, NULL);
    info->joined = c->io && c->format->iformat->flags & AVFMT_TS_DISCONT;
    info->codec = c->decoder.codec->codec->name;
    info->duration = c->format->duration == AV_NOPTS_VALUE ? -1 : av.av_rescale_q(c->format->duration, (AVRational){1, AV_TIME_BASE}, nanoseconds);
    return 0;
}

/* The end of reading, which counts for the frame. */
static int end_read(pf_clip *c, int rc)
{
    if (c->timeout)
        c->patience = c->deadline - now();
    c->deadline = 0;
    return rc;
}

int pf_clip_read(pf_clip *c)
{
    AVPacket *p = c->decoder.packet;
    pf_library_forget();
    c->deadline = c->timeout ? now() + c->patience : 0;
    int rc = av.av_read_frame(c->format, p);
    if (rc == AVERROR_EOF) {
        c->ended = c->full = 1;
        return end_read(c, 0);
    }
    if (rc == AVERROR(EAGAIN))
        return end_read(c, 0);
    if (rc < 0)
        return end_read(c, failed(c, rc));
    if (p->stream_index != c->stream->index) {
        av.av_packet_unref(p);
        return end_read(c, interrupted(c) ? failed(c, AVERROR_EXIT) : 0);
    }
    if (!c->keyed) /* key frames may be far apart */
        wait_for(c, 1);
    c->bytes += p->size;
    c->keyed |= p->flags & AV_PKT_FLAG_KEY;
    c->full = 1;
    return end_read(c, interrupted(c) ? failed(c, AVERROR_EXIT) : 0);
}

/* Gives the decoder the packet that was read, or the end. A packet that cannot be decoded is left out. */
static int feed(pf_clip *c)
{
    c->full = 0;
    if (c->ended)
        return pf_decoder_send(&c->decoder, NULL);
    if (pf_decoder_send(&c->decoder, c->decoder.packet) < 0)
        c->decoder.damaged++;
    av.av_packet_unref(c->decoder.packet);
    return c->decoder.greedy ? AVERROR(ENOMEM) : 0;
}

/* The time of a stamp since the first one, in the stream's units. Stamps have so many bits, and begin anew behind the greatest: what is nearer that way
   has gone on. In a hostile file sums may wrap. */
static int64_t elapsed_at(pf_clip *c, int64_t stamp)
{
    int64_t before = c->stamp == AV_NOPTS_VALUE ? c->start : c->stamp;
    uint64_t grown = (uint64_t)stamp - (uint64_t)before;
    int rest = 64 - c->stream->pts_wrap_bits;
    if (rest > 0 && rest < 64)
        grown = (int64_t)(grown << rest) >> rest;
    c->elapsed = (c->stamp == AV_NOPTS_VALUE ? 0 : (uint64_t)c->elapsed) + grown;
    c->stamp = stamp;
    return c->elapsed;
}

int pf_clip_next(pf_clip *c, pf_frame *frame)
{
    int rc, fed = c->full;
    pf_library_forget();
    if (!c->began) {
        c->began = 1;
        c->patience = c->timeout;
    }
    if (fed && (rc = feed(c)) < 0)
        return rc;
    for (;;) {
        if ((rc = pf_decoder_receive(&c->decoder)) > 0)
            break;
        if (c->decoder.greedy)
            return AVERROR(ENOMEM);
        if (interrupted(c))
            return failed(c, AVERROR_EXIT);
        if (rc < 0) {
            c->decoder.damaged++;
            continue;
        }
        if (c->ended)
            return 0;
        if (!fed || c->keyed || c->bytes == 0)
            return PF_CLIP_EMPTY;
        c->began = 0;
        return PF_CLIP_KEYLESS;
    }
    c->began = 0;
    c->keyed = 1;
    const AVFrame *f = c->decoder.frame;
    if (c->start == AV_NOPTS_VALUE)
        c->start = f->best_effort_timestamp;
    *frame = (pf_frame){.width = f->width, .height = f->height, .bt709 = pf_is_bt709(f), .time = INT64_MIN};
    if (f->best_effort_timestamp != AV_NOPTS_VALUE)
        frame->time = av.av_rescale_q(elapsed_at(c, f->best_effort_timestamp), c->stream->time_base, nanoseconds);
    return 1;
}

int pf_clip_copy(pf_clip *c, const pf_picture *to)
{
    pf_library_forget();
    return pf_decoder_copy(&c->decoder, to);
}

int pf_clip_seek(pf_clip *c, int64_t time)
{
    begin(c);
    int64_t start = c->start == AV_NOPTS_VALUE ? 0 : c->start;
    int64_t at = (uint64_t)start + (uint64_t)av.av_rescale_q(time, nanoseconds, c->stream->time_base);
    int rc = av.av_seek_frame(c->format, c->stream->index, at, AVSEEK_FLAG_BACKWARD);
    if (rc < 0)
        return failed(c, rc);
    av.avcodec_flush_buffers(c->decoder.codec);
    if (c->full && !c->ended)
        av.av_packet_unref(c->decoder.packet);
    c->ended = c->full = c->began = 0;
    c->stamp = AV_NOPTS_VALUE;
    return 0;
}

int64_t pf_clip_damaged(const pf_clip *c) { return c->decoder.damaged; }

int64_t pf_clip_bytes(const pf_clip *c) { return c->bytes; }

const char *pf_clip_error(const pf_clip *c) { return c->decoder.error; }

const char *pf_clip_redirected(const pf_clip *c) { return c->redirected; }

void pf_clip_close(pf_clip *c)
{
    pf_decoder_close(&c->decoder);
    av.avformat_close_input(&c->format);
    if (c->io)
        av.av_freep(&c->io->buffer);
    av.avio_context_free(&c->io);
    free(c);
}
