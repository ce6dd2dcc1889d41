package engine

import "strings"

// CacheSalt is what keeps a prompt's blocks apart from others' of a prefix cache: the job's salt, and the adapter, whose keys and values are
// others than the model's. A client's salt is text of UTF-8, in which no byte is adapterMark.
func (j *Job) CacheSalt() string {
	if t, ok := j.Work.(*Tokens); ok && t.Ask.Adapter != "" {
		return adapterMark + t.Ask.Adapter + adapterMark + j.Salt
	}
	return j.Salt
}

const adapterMark = "\xff"

// CutCacheSalt is what CacheSalt was made of.
func CutCacheSalt(salt string) (adapter, of string) {
	if rest, ok := strings.CutPrefix(salt, adapterMark); ok {
		adapter, of, _ = strings.Cut(rest, adapterMark)
		return adapter, of
	}
	return "", salt
}
