package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mizzen-mesh/mizzen/pilot/server"
)

func environmentCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "environment",
		Short: "List the environment variables of mizzen discovery",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, v := range server.Variables() {
				if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Name, v.Default, v.Stage, v.Doc); err != nil {
					return err
				}
			}
			return w.Flush()
		},
	}
}
