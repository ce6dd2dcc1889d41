package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestVideoDemo: the demo's page, in a browser, has boxes and numbers of a real stream; the demo ends and leaves nothing. The browser's
// picture of it is kept as build/video-page.png. The same browser then adds and removes streams of a server with an API key.
func TestVideoDemo(t *testing.T) {
	b := demoPage(t)
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
	manageStreams(b)
}

// TestVideoDemoAdapts: of a camera that adapts the page shows the knobs, what was found over time, and the gradient over the frame.
func TestVideoDemoAdapts(t *testing.T) {
	b := demoPage(t, "--method", "oneadapt:preset=repo,share=0.1")
	b.until(`document.querySelector(".set")?.textContent.includes("(24 to 36)")`)
	b.until(`document.querySelector(".course").getAttribute("aria-label").includes("found")`)
	const yellow = `(() => { const c = document.querySelector(".picture"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i] > d[i+2] + 60 && d[i+1] > d[i+2] + 60) n++;
		return n; })()`
	b.until(yellow + " < 1000")
	b.until(`document.querySelector(".sensitive").click() || true`)
	b.until(yellow + " > 3000")
	b.until(`parseFloat(document.querySelector('[data-figure="frames"]').textContent) >= 60`) // for charts to have something to show
	b.screenshot("../../build/video-page-adapts.png")
}

// demoPage is the page of the demo in a browser. When the test ends the demo does, and leaves nothing.
func demoPage(t *testing.T, flags ...string) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser, a server and a camera take 10 s")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("the browser chromium is missing; `make test` as root installs it")
	}
	temporary := t.TempDir()
	bin := buildCamera(t)
	cmd := command([]string{"TMPDIR=" + temporary, "PATH=" + bin + ":" + os.Getenv("PATH")}, append([]string{"video", "demo", "--port", "0", "--no-browser"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the demo ends with %v", err)
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("the demo leaves %v, %v", left, err)
		}
	})
	url, address := "", regexp.MustCompile(`http://\S+/video`)
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url = address.FindString(lines.Text())
	}
	if url == "" {
		t.Fatal("the demo does not say where the page is")
	}
	return browse(t, chromium, url)
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

// manageStreams gives the key where the browser asks for it, adds a stream by keyboard, which is refused with the reason at first, and removes it.
func manageStreams(b *browser) {
	file := eyeFile(b.T, 1)
	b.Setenv("PREFILLONLY_API_KEY", "sesame")
	p := serveEyes(b.T, eyeEntry("eye", file))
	asked := b.giveKeys("guess", "sesame")
	b.send("Page.navigate", map[string]any{"url": p.base + "/video"})
	b.until(`document.querySelector("#empty")?.hidden === false && document.querySelector("#adding").open && document.querySelector("#summary").textContent === "0 streams"`)
	asked()
	b.send("Emulation.setDeviceMetricsOverride", map[string]any{"width": 320, "height": 640, "deviceScaleFactor": 2, "mobile": true})
	b.until(`document.documentElement.scrollWidth <= 320`)

	b.tabTo("name")
	b.fill("gate")
	b.tabTo("source")
	b.fill("nothing.mp4")
	b.key("Enter", "\r")
	b.until(`!document.querySelector("#refused").hidden && document.querySelector("#refused").textContent.includes("nothing.mp4")`)
	b.tabTo("source")
	b.fill("drawn.mp4")
	b.tabTo("rate")
	b.fill("1")
	b.key("Enter", "\r")
	b.until(`document.querySelector("[data-stream=gate]") && document.querySelector("#empty").hidden && document.querySelector("#refused").hidden && document.querySelector("#summary").textContent === "1 stream"`)
	b.until(`parseFloat(document.querySelector('[data-stream=gate] [data-figure="a"]').textContent) > 0`)
	b.until(`document.documentElement.scrollWidth <= 320`)
	b.screenshot("../../build/video-page-narrow.png")
	b.tabTo("Remove")
	b.key("Enter", "\r")
	b.until(`document.querySelector(".remove").textContent === "Really remove?"`)
	b.key("Enter", "\r")
	b.until(`!document.querySelector("[data-stream]") && !document.querySelector("#empty").hidden`)
}
