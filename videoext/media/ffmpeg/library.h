/* FFmpeg's libraries, opened at run time: programs start without them. The functions stand in one table under their
   own names and with the types that the headers give them. */
#ifndef PF_FFMPEG_LIBRARY_H
#define PF_FFMPEG_LIBRARY_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#define PF_AVUTIL(F) \
    F(av_buffer_create) F(av_dict_free) F(av_dict_set) F(av_dict_set_int) F(av_frame_alloc) F(av_frame_free) F(av_frame_unref) F(av_free) F(av_freep) \
    F(av_get_padded_bits_per_pixel) F(av_log_format_line2) F(av_log_set_callback) F(av_malloc) F(av_mallocz) F(av_max_alloc) F(av_pix_fmt_desc_get) F(av_rescale_q) F(av_strerror)
#define PF_AVCODEC(F) \
    F(av_new_packet) F(av_packet_alloc) F(av_packet_free) F(av_packet_rescale_ts) F(av_packet_unref) F(avcodec_alloc_context3) \
    F(avcodec_default_get_buffer2) F(avcodec_find_decoder) F(avcodec_flush_buffers) F(avcodec_free_context) F(avcodec_open2) F(avcodec_parameters_to_context) \
    F(avcodec_receive_frame) F(avcodec_send_packet)
#define PF_AVFORMAT(F) \
    F(av_find_best_stream) F(av_guess_frame_rate) F(av_read_frame) F(av_seek_frame) F(av_write_frame) F(av_write_trailer) \
    F(avformat_alloc_context) F(avformat_alloc_output_context2) F(avformat_close_input) F(avformat_find_stream_info) \
    F(avformat_free_context) F(avformat_network_init) F(avformat_new_stream) F(avformat_open_input) F(avformat_version) \
    F(avformat_write_header) F(avio_alloc_context) F(avio_close_dyn_buf) F(avio_context_free) F(avio_open_dyn_buf)
#define PF_SWSCALE(F) F(sws_freeContext) F(sws_getCachedContext) F(sws_getCoefficients) F(sws_scale) F(sws_setColorspaceDetails)

#define PF_FIELD(name) __typeof__(name) *name;
extern struct pf_library {
    PF_AVUTIL(PF_FIELD)
    PF_AVCODEC(PF_FIELD)
    PF_AVFORMAT(PF_FIELD)
    PF_SWSCALE(PF_FIELD)
} av;

/* Opens the libraries, once. The result is 0, or -1 with the reason. */
int pf_library_open(char *error, size_t error_size);

enum { PF_ERROR_SIZE = 512 };

/* Forgets what the libraries logged on this thread. */
void pf_library_forget(void);

/* Tells whether the libraries logged an error on this thread since then. */
int pf_library_complained(void);

/* Returns where a camera redirected this thread to since then; empty: nowhere. */
const char *pf_library_redirected(void);

/* Writes what a code means, and what the libraries logged last on this thread. */
void pf_library_explain(int code, char error[PF_ERROR_SIZE]);

/* Tells whether a name is one of a list with commas. */
int pf_library_lists(const char *list, const char *name);

#endif
