package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// Bytes is an amount of memory.
type Bytes int64

// Length is a number of tokens.
type Length int

// units are the factors of sizes; KB and KiB both are 1024, as memory is sold.
var units = []struct {
	name   string
	factor float64
}{{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}

func (b Bytes) String() string {
	for _, u := range units {
		if n := float64(b) / u.factor; n >= 1 && n == float64(int64(n)) {
			return fmt.Sprintf("%d%siB", int64(n), u.name)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// parseBytes reads 4GiB, 4GB, 4g or 4294967296.
func parseBytes(text string) (Bytes, error) {
	number, factor := strings.ToUpper(strings.TrimSpace(text)), 1.0
	number = strings.TrimSuffix(strings.TrimSuffix(number, "B"), "I")
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = rest, u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 0) || v*factor >= 1<<62 {
		return 0, fmt.Errorf("invalid size %q: want a number of bytes such as 4GiB", text)
	}
	return Bytes(v * factor), nil
}

// parseLength reads tokens as vLLM does: 25600, 25.6k (thousands) or 32K (1024s).
func parseLength(text string) (Length, error) {
	number, factor := strings.TrimSpace(text), 1.0
	for suffix, f := range map[string]float64{"k": 1e3, "K": 1 << 10, "m": 1e6, "M": 1 << 20} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, factor = rest, f
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) || v*factor > 1<<31 {
		return 0, fmt.Errorf("invalid length %q: want a number of tokens such as 32768 or 32K", text)
	}
	return Length(v * factor), nil
}

// slotsOrHalf is a number of slots, or stages.Half.
type slotsOrHalf int

// Set implements ownValue.
func (n *slotsOrHalf) Set(text string) error {
	if text == "half" {
		*n = stages.Half
		return nil
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 0 {
		return fmt.Errorf("invalid value %q: want half, or a whole number from 0 on", text)
	}
	*n = slotsOrHalf(v)
	return nil
}

// String implements ownValue.
func (n *slotsOrHalf) String() string {
	if *n == stages.Half {
		return "half"
	}
	return strconv.Itoa(int(*n))
}

// ownValue is a value of a type that reads and shows itself.
type ownValue interface {
	Set(text string) error
	String() string
}

// setValue parses text into what field points to.
func setValue(field any, text string) (err error) {
	switch p := field.(type) {
	case *string:
		*p = text
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			err = fmt.Errorf("invalid value %q: want true or false", text)
		}
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			err = fmt.Errorf("invalid value %q: want a whole number", text)
		}
	case *float64:
		if *p, err = strconv.ParseFloat(text, 64); err != nil {
			err = fmt.Errorf("invalid value %q: want a number", text)
		}
	case *time.Duration:
		if *p, err = time.ParseDuration(text); err != nil {
			err = fmt.Errorf("invalid time %q: want one such as 30s or 1m30s", text)
		}
	case *Bytes:
		*p, err = parseBytes(text)
	case *Length:
		*p, err = parseLength(text)
	case *[]float64:
		*p, err = parseList(text, func(item string) (v float64, err error) { err = setValue(&v, item); return v, err })
	case *[]int:
		*p, err = parseList(text, func(item string) (v int, err error) { err = setValue(&v, item); return v, err })
	case *[]string:
		*p = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*p = append(*p, item)
			}
		}
	case ownValue:
		err = p.Set(text)
	default:
		err = fmt.Errorf("a field of type %T", field)
	}
	return err
}

// parseList reads values between commas.
func parseList[T any](text string, parse func(string) (T, error)) (list []T, err error) {
	for item := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// showList is the inverse of parseList.
func showList[T any](list []T) string {
	var items []string
	for i := range list {
		items = append(items, showValue(&list[i]))
	}
	return strings.Join(items, ",")
}

// showValue is the inverse of Set.
func showValue(field any) string {
	switch p := field.(type) {
	case *string:
		return *p
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *Length:
		return strconv.Itoa(int(*p))
	case *[]float64:
		return showList(*p)
	case *[]int:
		return showList(*p)
	case *[]string:
		return strings.Join(*p, ",")
	case fmt.Stringer:
		return p.String()
	}
	return ""
}
