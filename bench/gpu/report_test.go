package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// report runs tools/measure/cuda_report.sh in a tree of its own, in which programs stand for what would be
// built, and returns its report.
func report(t *testing.T, which string, programs map[string]string) (text string, failed bool) {
	t.Helper()
	tree := t.TempDir()
	script, err := os.ReadFile("../../tools/measure/cuda_report.sh")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"tools/measure/cuda_report.sh": string(script), "tools/peers/cuda_torch.py": "print('torch was here')\n", "engine/model/golden.json": ""}
	for name, body := range programs {
		files["build/cuda-test/"+name] = "#!/bin/sh\n" + body
	}
	for name, content := range files {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(filepath.Join(tree, "tools/measure/cuda_report.sh"), which)
	command.Env = append(os.Environ(), "CUDA_REPORT_SECONDS=3")
	printed, err := command.CombinedOutput()
	if err != nil && command.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, printed)
	}
	written, readErr := os.ReadFile(filepath.Join(tree, "build/cuda-test", which+".md"))
	if readErr != nil || string(written) != string(printed) {
		t.Errorf("%v; the report is not what was printed:\n%s\nprinted:\n%s", readErr, written, printed)
	}
	return string(written), err != nil
}

// TestReport: parts that fail or take too long cost what comes after them nothing but their time, and
// the report says so.
func TestReport(t *testing.T) {
	text, failed := report(t, "speed", map[string]string{"bench": `
case $2 in
suffixes) echo broken; exit 3 ;;
products) echo half; sleep 60 ;;
*) echo "part $2" ;;
esac
`})
	if !failed {
		t.Error("the script succeeded, though a part failed")
	}
	at := 0
	for _, want := range []string{
		"# GPU speed, 20", "How to read this", "## Prompts", "part prompts", "## Suffixes", "broken", "Failed with status 3.",
		"## Attention", "part attention", "## Matrix products", "half", "Stopped after ", "Not measured: no time was left.", " s in all.",
	} {
		next := strings.Index(text[at:], want)
		if next < 0 {
			t.Fatalf("the report lacks %q after what comes before it:\n%s", want, text)
		}
		at += next
	}
	if text, failed = report(t, "conformance", map[string]string{"bench": "", "kernels.test": "echo kernels $*", "model.test": "pwd"}); failed || !strings.Contains(text, "kernels -test.v -test.run TestGPU") || !strings.Contains(text, "/engine/model\n") {
		t.Errorf("failed %v:\n%s", failed, text)
	}
}
