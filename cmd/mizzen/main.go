// Command mizzen is the service-mesh control plane and everything around it, in one binary.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root(os.LookupEnv).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mizzen:", err)
		os.Exit(1)
	}
}

// root returns the command line. lookup reads the environment.
func root(lookup func(string) (string, bool)) *cobra.Command {
	c := &cobra.Command{
		Use:           "mizzen",
		Short:         "A service-mesh control plane",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.AddCommand(discoveryCommand(lookup), environmentCommand(), ctlCommand(lookup), versionCommand())
	return c
}

// version is what the binary calls itself; the build sets it.
var version = "dev"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), version)
			return err
		},
	}
}
