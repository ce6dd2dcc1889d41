package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestVideoDemo: the demo's page, in a browser, has boxes and numbers of a real stream; the demo ends and leaves nothing. The browser's
// picture of it is kept as build/video-page.png.
func TestVideoDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser, a server and a camera take 10 s")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the browser chromium is missing; `make test` as root installs it")
	}
	temporary := t.TempDir()
	bin := buildCamera(t)
	cmd := command([]string{"TMPDIR=" + temporary, "PATH=" + bin + ":" + os.Getenv("PATH")}, "video", "demo", "--port", "0", "--no-browser")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the demo ends with %v", err)
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("the demo leaves %v, %v", left, err)
		}
	}()
	url, address := "", regexp.MustCompile(`http://\S+/video`)
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url = address.FindString(lines.Text())
	}
	if url == "" {
		t.Fatal("the demo does not say where the page is")
	}
	b := browse(t, chromium, url)
	b.until(`document.querySelector(".found")?.textContent.includes("regions asked for")`)
	for figure, least := range map[string]float64{"a": 1, "b": 0.1, "latency": 1, "frames": 10} {
		b.until(fmt.Sprintf(`parseFloat(document.querySelector('[data-figure="%s"]').textContent) >= %v`, figure, least))
	}
	// the picture has colours that only the page draws: of cars' boxes and of regions
	b.until(`(() => { const c = document.querySelector(".picture"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let boxes = 0, regions = 0;
		for (let i = 0; i < d.length; i += 4) {
			if (d[i] === 0x4d && d[i+1] === 0xc3 && d[i+2] === 0xff) boxes++;
			if (d[i] > 200 && d[i+1] < 100 && d[i+2] > 170) regions++;
		}
		return boxes > 100 && regions > 20; })()`)
	b.until(`parseFloat(document.querySelector('[data-figure="frames"]').textContent) >= 60`) // for charts to have something to show
	b.screenshot("../../build/video-page.png")
	b.send("Emulation.setDeviceMetricsOverride", map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true})
	b.send("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}})
	b.until(`document.documentElement.scrollWidth <= 390`)
	time.Sleep(1200 * time.Millisecond) // charts are drawn once a second
	b.screenshot("../../build/video-page-phone.png")
}

// buildCamera builds the camera's program into a directory, which it returns.
func buildCamera(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if text, err := exec.Command("go", "build", "-o", dir, "../camera").CombinedOutput(); err != nil {
		t.Skipf("the camera's program cannot be built: %v\n%s", err, text)
	}
	return dir
}

// browser is Chromium with one page, over the pipe of its DevTools protocol.
type browser struct {
	*testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	number  int
}

func browse(t *testing.T, chromium, url string) *browser {
	t.Helper()
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--window-size=1180,860", "--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "about:blank")
	ours, theirs := pipes(t), pipes(t)
	cmd.ExtraFiles = []*os.File{ours[0], theirs[1]} // it reads 3 and writes 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ours[0].Close()
	theirs[1].Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	b := &browser{T: t, to: ours[1], from: bufio.NewReader(theirs[0])}
	if err := theirs[0].SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	var target struct{ TargetID string }
	b.into(&target, "Target.createTarget", map[string]any{"url": url})
	var attached struct{ SessionID string }
	b.into(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	return b
}

func pipes(t *testing.T) [2]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return [2]*os.File{r, w}
}

func (b *browser) into(result any, method string, params any) {
	b.Helper()
	if err := json.Unmarshal(b.send(method, params), result); err != nil {
		b.Fatal(err)
	}
}

// send sends a command and waits for its result.
func (b *browser) send(method string, params any) json.RawMessage {
	b.Helper()
	b.number++
	message := map[string]any{"id": b.number, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.Fatal(err)
	}
	for {
		line, err := b.from.ReadBytes(0)
		if err != nil {
			b.Fatalf("%s: the browser says no more: %v", method, err)
		}
		var said struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(line[:len(line)-1], &said); err != nil {
			b.Fatal(err)
		}
		if said.ID != b.number {
			continue
		}
		if said.Error != nil {
			b.Fatalf("%s: %s", method, said.Error.Message)
		}
		return said.Result
	}
}

// until waits until an expression is true on the page.
func (b *browser) until(expression string) {
	b.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(150 * time.Millisecond) {
		var answer struct{ Result struct{ Value any } }
		b.into(&answer, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
		if answer.Result.Value == true {
			return
		}
	}
	var page struct{ Result struct{ Value string } }
	b.into(&page, "Runtime.evaluate", map[string]any{"expression": "document.body.innerText", "returnByValue": true})
	b.screenshot("../../build/video-page.png")
	b.Fatalf("not within 40 s: %s\nthe page says:\n%s", expression, page.Result.Value)
}

func (b *browser) screenshot(name string) {
	b.Helper()
	var shot struct{ Data string }
	b.into(&shot, "Page.captureScreenshot", map[string]any{"format": "png"})
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		b.Fatal(err)
	}
}
