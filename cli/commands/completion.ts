/** `flotilla completion`: prints the script that lets a shell complete commands, options and their values. */

import { Argument, type Command as Program } from 'commander'
import { helpTexts } from '#stidx/command/help.ts'
import { describe } from '../cli.ts'
import { completionScript, type OptionWord, type Shell, shells } from '../completion.ts'
import { printJson, write } from '../output.ts'

interface Completed {
  /** The program with every command. */
  whole(): Promise<Program>
  singulars: Readonly<Record<string, string>>
}

export function registerCompletion(program: Program, { whole, singulars }: Completed): void {
  const completion = program
    .command('completion')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .description('print a completion script for a shell')
  describe(completion, 'source <(flotilla completion bash)\nflotilla completion fish | source').action(
    async (shell: Shell, { json }: { json?: boolean }) => {
      const script = completionScript(shell, { program: await whole(), singulars, otherOptions })
      if (json) printJson({ shell, script })
      else write(script)
    },
  )
}

/** Local search has a help text of its own: each of its options begins a line. */
function otherOptions(command: string): OptionWord[] {
  const lines = (command === 'stats' ? '' : (helpTexts[command] ?? '')).matchAll(
    /^ {2}(--[a-z-]+)( [A-Z]+)?/gm,
  )
  return [...lines].map(([, flag = '', value]) => ({ flag, takesValue: value !== undefined, values: [] }))
}
