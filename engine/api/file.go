package api

import (
	"encoding/base64"
	"strings"
)

// DecodeFile is the file that a field of JSON has as a data URL, or as the base64 of one; what says what it is to be, and like how its data URL
// begins.
func DecodeFile(field, text, what, like string) ([]byte, *Error) {
	kind, data, isURL := strings.Cut(text, ",")
	switch {
	case isURL && strings.HasPrefix(kind, "data:"):
		if !strings.HasSuffix(kind, ";base64") {
			return nil, Invalid(field, "%s is a data URL that begins %.60q; want one of base64: %s...", field, kind, like)
		}
		text = data
	case strings.Contains(text[:min(len(text), 16)], ":"):
		return nil, Invalid(field, "%s begins %.60q, and this server fetches nothing; send the %s itself, as %s...", field, text, what, like)
	}
	file, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, Invalid(field, "%s of %d characters is not base64: %v", field, len(text), err)
	}
	if len(file) == 0 {
		return nil, Invalid(field, "%s is empty; give a %s as %s...", field, what, like)
	}
	return file, nil
}
