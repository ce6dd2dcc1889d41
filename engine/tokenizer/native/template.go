//go:build cgo

package native

// #include "prefillonly_native.h"
import "C"

import (
	"runtime"
	"time"
	"unsafe"
)

// Template is a compiled chat template, freed with the last reference to it.
type Template struct {
	handle unsafe.Pointer
	within time.Duration
}

// CompileTemplate makes a template of which a rendering may take so many instructions, and so much processor time beside
// what its context adds.
func CompileTemplate(source string, fuel uint64, within time.Duration) (*Template, error) {
	var failure C.struct_prefillonly_bytes
	handle := C.prefillonly_template_compile((*C.uint8_t)(unsafe.StringData(source)), C.size_t(len(source)),
		C.uint64_t(fuel), templateBudget(within, len(source)).native(), &failure)
	if handle == nil {
		return nil, takeError(failure)
	}
	t := &Template{handle, within}
	runtime.SetFinalizer(t, func(t *Template) { C.prefillonly_template_free(t.handle) })
	return t, nil
}

// Render renders with the JSON object context; flatten joins the text parts of messages.
func (t *Template) Render(context []byte, flatten bool) (string, error) {
	var out, failure C.struct_prefillonly_bytes
	if C.prefillonly_template_render(t.handle, (*C.uint8_t)(unsafe.SliceData(context)), C.size_t(len(context)),
		C.bool(flatten), templateBudget(t.within, len(context)).native(), &out, &failure) != 0 {
		return "", takeError(failure)
	}
	runtime.KeepAlive(t)
	return string(takeBytes(out)), nil
}
