// Package config holds the settings: one JSON file, written only by the process that owns the data folder.
//
// A setting that is missing in the file, or that cannot be used, has its default; for a file that is no JSON the copy of the last
// good one (.bak) is taken, else the defaults, which are closed ones. Load says in its warning what it did not take from the file.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/brief"
	"signalbox/internal/disk"
)

// Settings are all that a user can choose. JSON names are those of settings.json and of /ui/settings.
type Settings struct {
	Port         int      `json:"port"`                    // of the API server; 0 picks a free one
	KeepAlive    Duration `json:"keep_alive"`              // how long an unused model stays loaded; negative: for ever
	DefaultModel string   `json:"default_model"`           // the window's choice for a new chat; empty: that of the last chat
	Theme        string   `json:"theme"`                   // "system", "light" or "dark"
	Preference   []string `json:"preference"`              // device classes, best first
	Origins      []string `json:"origins"`                 // browser origins allowed beside the usual ones
	EmulateNPU   bool     `json:"emulate_npu"`             // the NPU plugin with the CPU standing in: slow, for tests
	NPUPrompt    int      `json:"npu_prompt_limit"`        // longest prompt the NPU is compiled for, tokens
	NPUReserve   int      `json:"npu_response_reserve"`    // tokens kept for the answer there
	Parallel     int      `json:"parallel"`                // requests that take turns on one CPU or GPU
	QueueLimit   int      `json:"queue_limit"`             // waiting requests per device; one more is refused
	RuntimeDir   string   `json:"runtime_dir"`             // native libraries; empty: searched for
	ModelsDir    string   `json:"models_dir"`              // empty: models/ in the data folder
	RetainDays   int      `json:"journal_retention_days"`  // records older than that are deleted
	HubEndpoint  string   `json:"hub_endpoint"`            // where models come from; empty: HF_ENDPOINT, or the Hugging Face hub
	NoClientPull bool     `json:"refuse_client_downloads"` // clients may not fetch models, the window and the command line may
	SlotMemoryMB int      `json:"prefix_cache_megabytes"`  // conversations kept ready on a device, at most

	NeverFallBack bool  `json:"never_fall_back"`       // 503 instead of the CPU standing in for another device
	BatteryNPU    bool  `json:"battery_prefers_npu"`   // on battery the NPU comes first
	SidePrompt    int   `json:"side_request_prompt"`   // most prompt tokens of a side request; 0: no such rule
	SideAnswer    int   `json:"side_request_answer"`   // most tokens of its answer
	Pins          []Pin `json:"pins"`                  // which models and clients go to which device; the first that fits
	Probe         bool  `json:"probe_models"`          // ask a model known questions after its first load on a device
	KeepBodies    bool  `json:"keep_bodies"`           // keep prompts and answers of requests, for replays
	BodyDays      int   `json:"bodies_retention_days"` // and for so long
}

// Pin sends a model, a client, or one client's use of one model to a device, unless a request says something else.
type Pin struct {
	Model  string `json:"model,omitempty"`  // canonical name; empty: every model
	Client string `json:"client,omitempty"` // name as the window shows it, such as "Zed"; empty: every client
	Device string `json:"device"`           // "npu", "gpu", "gpu:1" or "cpu"
}

// Default returns the settings of a new installation.
func Default() Settings {
	return Settings{
		Port: 11434, KeepAlive: Duration(5 * time.Minute), Theme: "system", Preference: []string{"NPU", "GPU", "CPU"},
		NPUPrompt: 1024, NPUReserve: 128, Parallel: 4, QueueLimit: 512, RetainDays: 30, SlotMemoryMB: 512,
		BatteryNPU: true, SidePrompt: 256, SideAnswer: 64, Origins: []string{}, Pins: []Pin{}, Probe: true, BodyDays: 7,
	}
}

// Clone shares nothing with s: decoding into a list writes over the list that is there, and that one is in force.
func (s Settings) Clone() Settings {
	s.Preference, s.Origins, s.Pins = slices.Clone(s.Preference), slices.Clone(s.Origins), slices.Clone(s.Pins)
	return s
}

// Duration is written as Go writes one ("5m0s") and also read as seconds, as Ollama's keep_alive is. That is the one setting of
// this type: its errors name it, since the decoder does not.
type Duration time.Duration

func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

func (d *Duration) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case float64:
		// What no Duration can hold becomes the largest that one can: Check refuses it by its field's name.
		*d = Duration(math.MaxInt64)
		if seconds := v * float64(time.Second); math.Abs(seconds) < math.MaxInt64 {
			*d = Duration(seconds)
		}
		return nil
	case string:
		parsed, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("keep_alive: %q is no duration: write seconds as a number, or 5m, or 1h30m", brief.Text(v))
		}
		*d = Duration(parsed)
		return nil
	}
	return fmt.Errorf("keep_alive: %s is no duration: write seconds as a number, or 5m, or 1h30m", brief.Text(string(b)))
}

// Check refuses values that cannot work, naming the setting.
func (s Settings) Check() error {
	between := func(name string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("%s must be from %d to %d, not %d", name, low, high, v)
		}
		return nil
	}
	errs := []error{
		between("port", s.Port, 0, 65535),
		between("npu_prompt_limit", s.NPUPrompt, 64, 32768),
		between("npu_response_reserve", s.NPUReserve, 16, 8192),
		between("parallel", s.Parallel, 1, 64),
		between("queue_limit", s.QueueLimit, 1, 100000),
		between("journal_retention_days", s.RetainDays, 1, 36500),
		between("prefix_cache_megabytes", s.SlotMemoryMB, 0, 1<<20),
		between("side_request_prompt", s.SidePrompt, 0, 32768),
		between("side_request_answer", s.SideAnswer, 1, 8192),
		between("bodies_retention_days", s.BodyDays, 1, 36500),
		checkPins(s.Pins),
		checkOrigins(s.Origins),
		checkEndpoint(s.HubEndpoint),
	}
	if len(s.DefaultModel) > longestName {
		errs = append(errs, fmt.Errorf("default_model: %q is no model's name", brief.Text(s.DefaultModel)))
	}
	if s.KeepAlive > longestKeep {
		errs = append(errs, fmt.Errorf("keep_alive must be at most %s; a negative one keeps models loaded for ever", time.Duration(longestKeep)))
	}
	if s.Theme != "system" && s.Theme != "light" && s.Theme != "dark" {
		errs = append(errs, fmt.Errorf("theme must be system, light or dark, not %q", brief.Text(s.Theme)))
	}
	if len(s.Preference) == 0 {
		errs = append(errs, errors.New("preference must name at least one of NPU, GPU and CPU"))
	}
	for i, class := range s.Preference {
		if slices.Contains(s.Preference[:i], class) {
			errs = append(errs, fmt.Errorf("preference has %s twice", brief.Text(class)))
		}
		if class != "NPU" && class != "GPU" && class != "CPU" {
			errs = append(errs, fmt.Errorf("preference has %q: only NPU, GPU and CPU are known", brief.Text(class)))
		}
	}
	return errors.Join(errs...)
}

// longestName is more than a model's or a client's name can have.
const longestName = 512

// longestKeep is longer than any computer runs, and far from where durations end.
const longestKeep = Duration(10 * 365 * 24 * time.Hour)

// originForm is what the guard compares with: "*", or a scheme with a host, of which the first part or all may be "*", and
// perhaps a port, which may be "*".
var originForm = regexp.MustCompile(`^(\*|file://|[A-Za-z][A-Za-z0-9+.-]*://` +
	`(\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])(:(\*|[0-9]{1,5}))?)$`)

func checkOrigins(origins []string) error {
	var errs []error
	for _, origin := range origins {
		if !originForm.MatchString(origin) {
			errs = append(errs, fmt.Errorf("origins: %q is no origin: write scheme://host or scheme://host:port without a path, "+
				"such as https://app.example", brief.Text(origin)))
		}
	}
	return errors.Join(errs...)
}

// OpenToAll tells whether an origin of the settings or of OLLAMA_ORIGINS lets every web page in.
func OpenToAll(origin string) bool {
	switch strings.ToLower(strings.TrimSpace(origin)) {
	case "*", "http://*", "https://*", "http://*:*", "https://*:*":
		return true
	}
	return false
}

func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("hub_endpoint: %q is no address of a hub: write one such as https://huggingface.co", brief.Text(endpoint))
	}
	return nil
}

// CheckChange is Check for settings that take the place of was. It refuses folders that cannot be used as well, those that
// are new: one whose disk is not plugged in today is no reason to refuse a change of the theme, or the whole file.
func (s Settings) CheckChange(was Settings) error {
	errs := []error{s.Check()}
	if s.ModelsDir != was.ModelsDir && s.ModelsDir != "" {
		errs = append(errs, named("models_dir", writable(s.ModelsDir)))
	}
	if s.RuntimeDir != was.RuntimeDir && s.RuntimeDir != "" {
		errs = append(errs, named("runtime_dir", folder(s.RuntimeDir)))
	}
	return errors.Join(errs...)
}

func named(setting string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", setting, err)
}

// folder refuses a path that is no folder.
func folder(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q must be the full path of a folder", brief.Text(path))
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s: make it first", path)
	case err != nil:
		return fmt.Errorf("the folder cannot be used: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", path)
	}
	return nil
}

// writable refuses a folder that nothing can be put into. Only trying tells.
func writable(path string) error {
	if err := folder(path); err != nil {
		return err
	}
	probe, err := os.MkdirTemp(path, ".signalbox-*")
	if err != nil {
		return fmt.Errorf("nothing can be written into %s: choose another folder, or change who may write there", path)
	}
	return os.Remove(probe)
}

var pinnable = regexp.MustCompile(`^(?i:npu|gpu|cpu)(:[0-9]{1,2})?$`)

func checkPins(pins []Pin) error {
	var errs []error
	for i, pin := range pins {
		if pin.Model == "" && pin.Client == "" {
			errs = append(errs, fmt.Errorf("pins: entry %d names neither a model nor a client", i+1))
		}
		if len(pin.Model) > longestName || len(pin.Client) > longestName {
			errs = append(errs, fmt.Errorf("pins: entry %d has a name of more than %d bytes", i+1, longestName))
		}
		if !pinnable.MatchString(pin.Device) {
			errs = append(errs, fmt.Errorf("pins: %q is no device: use npu, gpu, gpu:1 or cpu", brief.Text(pin.Device)))
		}
	}
	return errors.Join(errs...)
}

// Load reads the settings file. The warning is a sentence for people when something else was taken than what the file says; a
// missing file is a new installation and no warning.
func Load(path string) (s Settings, warning string) {
	s, wrong, err := read(path)
	switch {
	case err == nil && wrong == nil, errors.Is(err, fs.ErrNotExist):
		return s, ""
	case err == nil:
		return s, fmt.Sprintf("the settings file %s holds what cannot be used, and the defaults are used for it: %s", path, strings.ReplaceAll(wrong.Error(), "\n", "; "))
	}
	if backup, wrong, backupErr := read(path + ".bak"); backupErr == nil && wrong == nil {
		return backup, fmt.Sprintf("the settings file %s is damaged (%v); the copy from before the last change is used", path, err)
	}
	return Default(), fmt.Sprintf("the settings file %s is damaged (%v); the defaults are used", path, err)
}

// read takes each setting by itself, so that one that cannot be used (wrong says why) costs none of the others. An error means that
// the file tells nothing.
func read(path string) (s Settings, wrong, err error) {
	s = Default()
	text, err := os.ReadFile(path)
	if err != nil {
		return s, nil, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return s, nil, err
	}
	known, err := names()
	if err != nil {
		return s, nil, err
	}
	var all []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := known[name]; !ok {
			all = append(all, fmt.Errorf("there is no setting %q", brief.Text(name)))
			continue
		}
		one, err := json.Marshal(map[string]json.RawMessage{name: values[name]})
		if err != nil {
			return s, nil, err
		}
		with := s.Clone()
		if err := json.Unmarshal(one, &with); err != nil {
			all = append(all, fmt.Errorf("%s has a value of another kind (%w)", name, err))
		} else if err := with.Check(); err != nil {
			all = append(all, err)
		} else {
			s = with
		}
	}
	return s, errors.Join(all...), nil
}

// names are the settings as they are called in the file.
func names() (known map[string]json.RawMessage, err error) {
	text, err := json.Marshal(Default())
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	return known, err
}

// Save writes the file so that a power cut leaves the old or the new one, and keeps the old one as .bak.
func (s Settings) Save(path string) error {
	if err := s.Check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if _, wrong, err := read(path); err == nil && wrong == nil {
		if old, err := os.ReadFile(path); err == nil {
			_ = disk.Write(path+".bak", old) // a copy for a bad day: its loss is no reason to refuse the change
		}
	}
	if err := disk.Write(path, append(text, '\n')); err != nil {
		return fmt.Errorf("save the settings: %w", err)
	}
	return nil
}

// Address is where the API server listens.
type Address struct {
	Port   int
	Source string // "settings", "SIGNALBOX_HOST" or "OLLAMA_HOST"
	Note   string // a sentence when something asked for was not done
}

// Listen works out the port: SIGNALBOX_HOST, then OLLAMA_HOST, then the setting. Both variables give only their port:
// another program's "0.0.0.0" must not open this one to the network without a key.
func (s Settings) Listen(getenv func(string) string) Address {
	for _, name := range []string{"SIGNALBOX_HOST", "OLLAMA_HOST"} {
		value := strings.TrimSpace(getenv(name))
		if value == "" {
			continue
		}
		host, port, ok := splitHost(value)
		a := Address{Port: port, Source: name}
		if !ok {
			a.Port, a.Source = s.Port, "settings"
			a.Note = fmt.Sprintf("%s=%q has no usable port: port %d from the settings is used", name, value, s.Port)
			return a
		}
		if ip := net.ParseIP(host); host != "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			a.Note = fmt.Sprintf("%s asks to listen on %s: Signalbox listens on this computer only (127.0.0.1 and ::1), port %d", name, host, port)
		}
		return a
	}
	return Address{Port: s.Port, Source: "settings"}
}

// splitHost takes what Ollama takes in OLLAMA_HOST: "host", ":port", "host:port", "port", "http://host:port/path".
func splitHost(value string) (host string, port int, ok bool) {
	port = 11434
	if scheme, rest, found := strings.Cut(value, "://"); found {
		value = rest
		switch scheme {
		case "http":
			port = 80
		case "https":
			port = 443
		}
	}
	value, _, _ = strings.Cut(value, "/")
	host, text, err := net.SplitHostPort(value)
	if err != nil {
		if n, numErr := strconv.Atoi(value); numErr == nil { // a bare number is a port
			return "", n, n >= 0 && n <= 65535
		}
		return strings.Trim(value, "[]"), port, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 65535 {
		return host, 0, false
	}
	return host, n, true
}
