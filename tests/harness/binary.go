package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
)

// BuildBinary builds the control plane in dir, or in the module's bin if dir is empty, and returns the binary's path.
func BuildBinary(ctx context.Context, dir string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	if dir == "" {
		dir = filepath.Join(root, "bin")
	}
	binary := filepath.Join(dir, "mizzen")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/mizzen")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the control plane: %w\n%s", err, text)
	}
	return binary, nil
}

// Fetch returns what a URL answers to a GET; a status other than 200 is an error.
func Fetch(ctx context.Context, url string) ([]byte, error) {
	return ask(ctx, http.DefaultClient, http.MethodGet, url)
}

// ask sends one request without a body.
func ask(ctx context.Context, client *http.Client, method, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", url, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d: %.200s", url, resp.StatusCode, body)
	}
	return body, nil
}
