// Package jsonerror says in words of JSON what is wrong with what encoding/json has refused.
package jsonerror

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Explain says why a value of JSON could not be decoded into a pointer's.
func Explain(err error, into any) string {
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch) && mismatch.Field == "":
		return fmt.Sprintf("it is a JSON %s; it must be %s", mismatch.Value, NameType(mismatch))
	case errors.As(err, &mismatch):
		return fmt.Sprintf("%s must be %s, not %s", FindField(mismatch, into), NameType(mismatch), mismatch.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// FindField is the path of the field that was refused, without the Go names of embedded structs, which no JSON has.
func FindField(mismatch *json.UnmarshalTypeError, into any) string {
	parts, at := strings.Split(mismatch.Field, "."), reflect.TypeOf(into).Elem()
	for len(parts) > 1 && at.Kind() == reflect.Struct {
		embedded, ok := at.FieldByName(parts[0])
		if !ok || !embedded.Anonymous {
			break
		}
		parts, at = parts[1:], embedded.Type
	}
	return strings.Join(parts, ".")
}

// NameType names what was wanted: a string, an integer.
func NameType(mismatch *json.UnmarshalTypeError) string {
	switch kind := mismatch.Type.Kind().String(); {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		if strings.Trim(mismatch.Value, "number -0123456789") == "" && strings.ContainsAny(mismatch.Value, "0123456789") {
			return "an integer that " + kind + " holds"
		}
		return "an integer"
	case strings.HasPrefix(kind, "float"):
		if strings.HasPrefix(mismatch.Value, "number ") {
			return "a number that " + kind + " holds"
		}
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "slice":
		return "a list"
	case kind == "string":
		return "a string"
	}
	return "an object"
}
