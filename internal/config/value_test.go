package config

import (
	"testing"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "4GiB": 4 << 30, "4GB": 4 << 30, "4g": 4 << 30, "1.5 MiB": 3 << 19, "64K": 64 << 10, "2TiB": 2 << 40, "123": 123} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "1QiB", "NaN", "1e30", "inf"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("parseBytes(%q) = %d, want an error", text, got)
		}
	}
	for text, want := range map[string]Length{"32768": 32768, "32K": 32768, "25.6k": 25600, "1M": 1 << 20, "1m": 1e6} {
		if got, err := parseLength(text); err != nil || got != want {
			t.Errorf("parseLength(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"prot": "port", "max-lenght": "max-length", "hots": "host"} {
		if got := nearestWord(word, []string{"port", "host", "max-length", "model"}); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if d := editDistance("kitten", "sitting"); d != 3 {
		t.Errorf("distance(kitten, sitting) = %d, want 3", d)
	}
}

// TestSlotsOfOtherPrograms: half of them unless a number is given, and 0 is none.
func TestSlotsOfOtherPrograms(t *testing.T) {
	if c := Default(); c.CPU.Outside != stages.Half || showValue((*slotsOrHalf)(&c.CPU.Outside)) != "half" {
		t.Errorf("by default %d, want half", c.CPU.Outside)
	}
	for text, want := range map[string]int{"half": stages.Half, "0": 0, "3": 3} {
		var n slotsOrHalf
		if err := setValue(&n, text); err != nil || int(n) != want || showValue(&n) != text {
			t.Errorf("%q is %d, %v, want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "-1", "Half", "1.5", "99999999999999999999"} {
		var n slotsOrHalf
		if err := setValue(&n, text); err == nil {
			t.Errorf("%q is taken as %d", text, n)
		}
	}
}
