package fault

import (
	"fmt"
	"strconv"
	"strings"
)

// metrics is one reading of all metrics: series as they are written, "name{label="value"}", to values.
type metrics map[string]float64

func parseMetrics(text []byte) (metrics, error) {
	m := metrics{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics line %q: %w", line, err)
		}
		m[line[:max(i, 0)]] = v
	}
	return m, nil
}

// sum adds up those series of a metric that have all the labels, each written as name="value".
func (m metrics) sum(name string, labels ...string) (total float64) {
	for series, v := range m {
		if got, rest, _ := strings.Cut(series, "{"); got == name && hasAll(rest, labels) {
			total += v
		}
	}
	return total
}

func hasAll(text string, labels []string) bool {
	for _, l := range labels {
		if !strings.Contains(text, l) {
			return false
		}
	}
	return true
}

// series counts a metric's series.
func (m metrics) series(name string) (n int) {
	for s := range m {
		if got, _, _ := strings.Cut(s, "{"); got == name {
			n++
		}
	}
	return n
}
