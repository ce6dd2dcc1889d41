// The C interface of the static library built from this directory by tools/build/native.sh.
// Texts are UTF-8 with lengths. A call that fails returns null or 1 and fills *error with a text.
#ifndef PREFILLONLY_NATIVE_H
#define PREFILLONLY_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prefillonly_bytes {
  uint8_t *data;
  size_t len;
};

struct prefillonly_ids {
  uint32_t *data;
  size_t len;
};

// What a call may take. Beyond it the call fails.
struct prefillonly_budget {
  size_t bytes;           // allocated and not yet freed
  uint32_t milliseconds;  // of processor time
};

void prefillonly_bytes_free(struct prefillonly_bytes);
void prefillonly_ids_free(struct prefillonly_ids);

void *prefillonly_tokenizer_open(const uint8_t *text, size_t len, struct prefillonly_budget,
                                 struct prefillonly_bytes *error);
// A *cancelled that becomes other than 0 ends the call with an error; cancelled may be null.
int prefillonly_tokenizer_encode(const void *tokenizer, const uint8_t *text, size_t len,
                                 bool add_special, struct prefillonly_budget,
                                 const int32_t *cancelled, struct prefillonly_ids *out,
                                 struct prefillonly_bytes *error);
int prefillonly_tokenizer_decode(const void *tokenizer, const uint32_t *ids, size_t len,
                                 bool skip_special, struct prefillonly_budget,
                                 struct prefillonly_bytes *out, struct prefillonly_bytes *error);
int prefillonly_tokenizer_describe(const void *tokenizer, struct prefillonly_budget,
                                   struct prefillonly_bytes *out, struct prefillonly_bytes *error);

void *prefillonly_template_compile(const uint8_t *source, size_t len, uint64_t fuel,
                                   struct prefillonly_budget, struct prefillonly_bytes *error);
int prefillonly_template_render(const void *template_, const uint8_t *context, size_t len,
                                bool flatten, struct prefillonly_budget,
                                struct prefillonly_bytes *out, struct prefillonly_bytes *error);
void prefillonly_template_free(void *template_);

// Constraints on generated text. What is opened is freed before the tokenizer and after all that is compiled of it; one
// call at a time uses a compiled grammar.
enum { prefillonly_grammar_json_schema, prefillonly_grammar_regex, prefillonly_grammar_lark };
void *prefillonly_grammars_open(const void *tokenizer, const uint8_t *bytes, const uint32_t *ends, size_t count,
                                struct prefillonly_budget, struct prefillonly_bytes *error);
void prefillonly_grammars_free(void *grammars);
// A compiled grammar and its clones keep at most `most` bytes together, and all grammars what prefillonly_kept_limit says:
// beyond that calls fail with the text prefillonly_full. prefillonly_broken is the text of those that follow a failure of a
// clone.
#define prefillonly_full "the memory of all forms is used up"
#define prefillonly_broken "another text of the same form has failed"
size_t prefillonly_kept_limit(size_t bytes);
size_t prefillonly_kept(void);
void *prefillonly_grammar_compile(const void *grammars, uint32_t kind, const uint8_t *text, size_t len,
                                  struct prefillonly_budget, size_t most, const int32_t *cancelled,
                                  struct prefillonly_bytes *error);
void *prefillonly_grammar_clone(const void *grammar, struct prefillonly_budget, struct prefillonly_bytes *error);
void prefillonly_grammar_free(void *grammar);
// 0, 1 when the text is complete, or -1 and *error.
int prefillonly_grammar_advance(void *grammar, const uint32_t *ids, size_t len, struct prefillonly_budget,
                                struct prefillonly_ids *forced, struct prefillonly_bytes *error);
// 0, 1 when the text may end here, or -1 and *error.
int prefillonly_grammar_mask(void *grammar, uint32_t *bits, size_t words, struct prefillonly_budget,
                             struct prefillonly_bytes *error);

// Of github.com/daulet/tokenizers; the second fails to link when the library is of another version.
void tokenizers_free_tokenizer(void *tokenizer);
void tokenizers_version_1_22_1(void);

#endif
