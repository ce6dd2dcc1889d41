package collectenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prefillonly/prefillonly/internal/nvml"
	"github.com/prefillonly/prefillonly/kernels/cpu"
)

// machine reads what Linux tells of itself under a root, which is / but in tests.
type machine struct{ root string }

func (m machine) read(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(m.root, path))
	return strings.TrimSpace(string(text)), err
}

// addFile adds a file's text.
func (m machine) addFile(f *found, name, path string) {
	text, err := m.read(path)
	f.addItem(name, text, err)
}

// parseFields are values of lines of the form "name: value", the first of each.
func parseFields(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, separator)
		if name = strings.TrimSpace(name); ok && all[name] == "" {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all
}

// instructions are the sets that kernels are written for, and those that they may be.
var instructions = []string{"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "amx_fp16"}

func (m machine) processor(f *found) {
	text, err := m.read("proc/cpuinfo")
	info := parseFields(text, ":")
	f.addItem("model", info["model name"], err)
	f.addItem("processors", fmt.Sprintf("%d in the list, %d for this process, GOMAXPROCS %d", strings.Count(text, "processor\t"), runtime.NumCPU(), runtime.GOMAXPROCS(0)), nil)
	f.addItem("cores", fmt.Sprintf("%s a socket, %s threads a socket", info["cpu cores"], info["siblings"]), nil)
	f.addItem("microcode", info["microcode"], nil)
	has := strings.Fields(info["flags"])
	f.addItem("instruction sets", strings.Join(slices.DeleteFunc(slices.Clone(instructions), func(s string) bool { return !slices.Contains(has, s) }), " "), err)
	if slices.Contains(has, "hypervisor") {
		f.addItem("virtual machine", "yes", nil)
	}
	for _, dir := range m.glob("sys/devices/system/cpu/cpu0/cache/index*") {
		level, _ := m.read(dir + "/level")
		kind, _ := m.read(dir + "/type")
		size, err := m.read(dir + "/size")
		f.addItem("cache L"+level+" "+strings.ToLower(kind), size, err)
	}
	backend, err := cpu.New(cpu.Config{})
	if err != nil {
		f.addItem("kernels", "", err)
		return
	}
	defer backend.Close()
	f.addItem("kernels", fmt.Sprintf("%s, %d threads", backend.Name(), backend.Threads()), nil)
}

// glob lists paths below the root.
func (m machine) glob(pattern string) (paths []string) {
	found, _ := filepath.Glob(filepath.Join(m.root, pattern))
	for _, path := range found {
		if below, err := filepath.Rel(m.root, path); err == nil {
			paths = append(paths, below)
		}
	}
	return paths
}

func (m machine) memory(f *found) {
	text, err := m.read("proc/meminfo")
	info := parseFields(text, ":")
	for _, name := range []string{"MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "HugePages_Total"} {
		f.addItem(name, info[name], err)
	}
	m.addFile(f, "transparent huge pages", "sys/kernel/mm/transparent_hugepage/enabled")
	m.addFile(f, "overcommit", "proc/sys/vm/overcommit_memory")
	for _, dir := range m.glob("sys/devices/system/node/node[0-9]*") {
		list, err := m.read(dir + "/cpulist")
		total, _ := m.read(dir + "/meminfo")
		_, total, _ = strings.Cut(total, "MemTotal:")
		total, _, _ = strings.Cut(total, "\n")
		f.addItem("NUMA "+filepath.Base(dir), "processors "+list+", memory "+strings.TrimSpace(total), err)
	}
}

// limits are those of this process: its shell's, and its control groups'.
func (m machine) limits(f *found) {
	text, err := m.read("proc/self/limits")
	for _, name := range []string{"Max open files", "Max locked memory", "Max processes", "Max address space", "Max core file size"} {
		_, rest, _ := strings.Cut(text, name)
		rest, _, _ = strings.Cut(rest, "\n")
		f.addItem(strings.ToLower(name[4:]), strings.Join(strings.Fields(rest), " "), err)
	}
	text, err = m.read("proc/self/cgroup")
	f.addItem("control group", text, err)
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			m.addGroupLimits(f, parts[1], parts[2])
		}
	}
}

// addGroupLimits adds the limits of a control group and of those above it; in a container the upper part of its path may be missing.
func (m machine) addGroupLimits(f *found, controllers, path string) {
	mounts, files := []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}, []string{"memory.max", "memory.high", "cpu.max", "cpuset.cpus.effective", "pids.max"}
	if controllers != "" {
		mounts, files = []string{"sys/fs/cgroup/" + controllers}, []string{"memory.limit_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpuset.cpus", "pids.max"}
	}
	for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
		for _, mount := range mounts {
			for _, name := range files {
				if text, err := m.read(filepath.Join(mount, path, name)); err == nil && text != "max" && text != "" {
					f.addItem(filepath.Join(path, name), text, nil)
				}
			}
		}
		if path == "/" {
			return
		}
	}
}

func (m machine) system(f *found) {
	text, err := m.read("etc/os-release")
	f.addItem("distribution", strings.Trim(parseFields(text, "=")["PRETTY_NAME"], `"`), err)
	var name unix.Utsname
	err = unix.Uname(&name)
	f.addItem("kernel", unix.ByteSliceToString(name.Release[:])+" "+unix.ByteSliceToString(name.Version[:]), err)
	f.addItem("container", m.containerEvidence(), nil)
	f.addItem("user", fmt.Sprintf("uid %d, gid %d", os.Getuid(), os.Getgid()), nil)
	var disk unix.Statfs_t
	err = unix.Statfs("/dev/shm", &disk)
	f.addItem("/dev/shm", fmt.Sprintf("%d MiB free of %d", int64(disk.Bavail)*disk.Bsize>>20, int64(disk.Blocks)*disk.Bsize>>20), err)
}

// containerEvidence says what tells that this is one.
func (m machine) containerEvidence() string {
	for path, kind := range map[string]string{".dockerenv": "Docker", "run/.containerenv": "Podman", "var/run/secrets/kubernetes.io": "Kubernetes"} {
		if _, err := os.Stat(filepath.Join(m.root, path)); err == nil {
			return kind
		}
	}
	if environ, err := m.read("proc/1/environ"); err == nil {
		for pair := range strings.SplitSeq(environ, "\x00") {
			if kind, ok := strings.CutPrefix(pair, "container="); ok {
				return kind
			}
		}
	}
	return "none that is known"
}

// libraries are those that are opened when they are wanted, where programs usually find them.
var libraries = []string{"libzmq.so", "libavformat.so", "libavcodec.so", "libswscale.so", "libx264.so", "libcuda.so", "libnvidia-ml.so", "libcudnn.so", "libcublasLt.so", "libcudart.so", "libnccl.so"}

// found lists the files of each library, whose names have versions.
func (m machine) libraries(f *found) {
	dirs := []string{"usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/cuda/lib64", "usr/local/cuda/targets/x86_64-linux/lib"}
	for dir := range strings.SplitSeq(os.Getenv("LD_LIBRARY_PATH"), ":") {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	for _, name := range libraries {
		var files []string
		for _, dir := range dirs {
			for _, path := range m.glob(filepath.Join(dir, name+".*")) {
				if real, err := filepath.EvalSymlinks(filepath.Join(m.root, path)); err == nil && !slices.Contains(files, real) {
					files = append(files, real)
				}
			}
		}
		var err error
		if files == nil {
			err = errors.New("not found in the usual places")
		}
		f.addItem(name, strings.Join(files, " "), err)
	}
}

func collectGPUs(f *found) {
	library, err := nvml.Open()
	if err != nil {
		f.addItem("driver", "", err)
		return
	}
	defer library.Close()
	f.addItem("driver", library.Driver(), nil)
	list, err := library.GPUs()
	if err != nil || len(list) == 0 {
		f.addItem("GPUs", "none", err)
	}
	for _, g := range list {
		memory, err := library.Memory(g)
		f.addItem(fmt.Sprintf("GPU %d", g.Index), fmt.Sprintf("%s, %s, bus %s, %d MiB free of %d", g.Name, g.UUID, g.BusID, memory.Free>>20, memory.Total>>20), err)
		if holders, err := library.Holders(g); err == nil && len(holders) > 0 {
			f.addItem(fmt.Sprintf("GPU %d is used by", g.Index), fmt.Sprint(holders), nil)
		}
	}
}
