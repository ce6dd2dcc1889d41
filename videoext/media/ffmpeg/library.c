//go:build !noffmpeg

#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct pf_library av;

struct symbol {
    const char *name;
    size_t offset;
};

#define SYMBOL(name) {#name, offsetof(struct pf_library, name)},
static const struct symbol avutil[] = {PF_AVUTIL(SYMBOL){0}}, avcodec[] = {PF_AVCODEC(SYMBOL){0}},
                           avformat[] = {PF_AVFORMAT(SYMBOL){0}}, swscale[] = {PF_SWSCALE(SYMBOL){0}};

/* Structures differ between major versions: the libraries are those of the headers. */
#define SONAME(library, version) "lib" library ".so." AV_STRINGIFY(version)
static const struct {
    const char *file;
    const struct symbol *symbols;
} libraries[] = {
    {SONAME("avutil", LIBAVUTIL_VERSION_MAJOR), avutil},
    {SONAME("avcodec", LIBAVCODEC_VERSION_MAJOR), avcodec},
    {SONAME("avformat", LIBAVFORMAT_VERSION_MAJOR), avformat},
    {SONAME("swscale", LIBSWSCALE_VERSION_MAJOR), swscale},
};

/* The most that one allocation of the libraries may have: files say how large things are. */
static const size_t max_alloc = 256 << 20;

static _Thread_local char logged[256], redirected[1200];

/* What libavformat says before it follows a redirection: where that leads is told nowhere else. */
static const char redirecting[] = "Redirecting to ";

static void keep_redirection(const char *format, va_list args)
{
    char text[sizeof redirected + 64];
    vsnprintf(text, sizeof text, format, args);
    const char *to = strstr(text, redirecting);
    if (!to)
        return;
    to += sizeof redirecting - 1;
    snprintf(redirected, sizeof redirected, "%.*s", (int)strcspn(to, "\r\n"), to);
}

static void keep_message(void *context, int level, const char *format, va_list args)
{
    if (strstr(format, redirecting)) {
        keep_redirection(format, args);
        return;
    }
    int prefix = 0;
    if (level > AV_LOG_ERROR || av.av_log_format_line2(context, level, format, args, logged, sizeof logged, &prefix) < 0)
        return;
    for (size_t n = strlen(logged); n > 0 && logged[n - 1] == '\n'; n--)
        logged[n - 1] = 0;
}

void pf_library_forget(void) { logged[0] = redirected[0] = 0; }

const char *pf_library_redirected(void) { return redirected; }

int pf_library_complained(void) { return logged[0] != 0; }

void pf_library_explain(int code, char error[PF_ERROR_SIZE])
{
    char meaning[AV_ERROR_MAX_STRING_SIZE];
    av.av_strerror(code, meaning, sizeof meaning);
    /* "[mov,mp4 @ 0x5581] text": the address says nothing. */
    const char *text = logged[0] == '[' && strstr(logged, "] ") ? strstr(logged, "] ") + 2 : logged;
    snprintf(error, PF_ERROR_SIZE, *text ? "%s (%s)" : "%s", meaning, text);
}

int pf_library_lists(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == 0))
            return 1;
    return 0;
}

int pf_library_open(char *error, size_t error_size)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i].file, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            snprintf(error, error_size, "%s", dlerror());
            return -1;
        }
        for (const struct symbol *s = libraries[i].symbols; s->name; s++) {
            void *address = dlsym(library, s->name);
            if (!address) {
                snprintf(error, error_size, "%s has no %s", libraries[i].file, s->name);
                return -1;
            }
            memcpy((char *)&av + s->offset, &address, sizeof address);
        }
    }
    av.av_log_set_callback(keep_message);
    av.av_max_alloc(max_alloc);
    av.avformat_network_init();
    return 0;
}
