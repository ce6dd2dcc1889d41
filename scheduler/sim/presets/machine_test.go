package presets

import "testing"

// The memory model must stay within a tenth of table 5.2 for the engines on one GPU.
func TestMemoryModelFollowsThePaper(t *testing.T) {
	paper := map[string]map[Method]int{
		"L4":   {Paged: 24000, Chunked: 46000, PrefillOnly: 130000},
		"A100": {Paged: 11000, Chunked: 17000, PrefillOnly: 87000},
		"H100": {Paged: 15000, Chunked: 25000, PrefillOnly: 97000},
	}
	for name, methods := range paper {
		m, err := MachineNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		for method, want := range methods {
			got, err := m.MaxTokens(method)
			if err != nil {
				t.Fatal(err)
			}
			if ratio := float64(got) / float64(want); ratio < 0.9 || ratio > 1.1 {
				t.Errorf("%s %s: %d tokens, the paper has %d", name, method, got, want)
			}
		}
	}
	if _, err := MachineNamed("T4"); err == nil {
		t.Error("an unknown machine was found")
	}
}
