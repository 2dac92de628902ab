/** Shell completion. The scripts call `sallyport __complete WORDS…`, so they stay valid when commands change. */
import type { Command as Program, Option as ProgramOption } from 'commander';

/** The hidden command that the scripts run. Its last argument is the word to complete, which may be empty. */
export const completeCommand = '__complete';

const bash = `# Add to ~/.bashrc: eval "$(sallyport completion bash)"
_sallyport() {
  local words=() count=0 word typed before='' reply
  # Bash splits words at colons. Suggestions are never expanded by the shell, because other people choose the names.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if (( count )) && [[ $word == :* || \${words[count-1]} == *: ]]; then words[count-1]+=$word
    else words[count++]=$word; fi
  done
  typed=\${words[count-1]}
  for (( word = 0; word < count; word++ )); do
    words[word]=\${words[word]//\\\\/}
    words[word]=\${words[word]#[\\"\\']}
    words[word]=\${words[word]%[\\"\\']}
  done
  [[ $typed == [\\"\\']* ]] || before=\${words[count-1]%"\${words[count-1]##*:}"}
  COMPREPLY=()
  while IFS=$'\\t' read -r reply _; do
    [[ $reply == "\${words[count-1]}"* ]] || continue
    if [[ $typed == [\\"\\']* ]]; then
      [[ $reply == *[\\"\\'\\\\\\$\\\`!]* ]] || COMPREPLY+=("$reply")
    else
      printf -v reply %q "\${reply#"$before"}"
      COMPREPLY+=("$reply")
    fi
  done < <("$1" ${completeCommand} "\${words[@]}" 2>/dev/null)
}
complete -o default -F _sallyport sallyport`;

const zsh = `#compdef sallyport
# Add to ~/.zshrc after compinit: eval "$(sallyport completion zsh)"
_sallyport() {
  local -a suggestions
  suggestions=(\${(f)"$($words[1] ${completeCommand} "\${(@Q)words[2,CURRENT]}" 2>/dev/null | sed -e 's/:/\\\\:/g' -e $'s/\\t/:/')"})
  if (( $#suggestions )); then _describe sallyport suggestions; else _files; fi
}
compdef _sallyport sallyport`;

const fish = `# Run once: sallyport completion fish > ~/.config/fish/completions/sallyport.fish
function _sallyport
  set -l words (commandline -opc) (commandline -ct)
  set -l suggestions ($words[1] ${completeCommand} $words[2..] 2>/dev/null)
  if test -n "$suggestions"
    printf '%s\\n' $suggestions
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c sallyport -f -a '(_sallyport)'`;

export const completionScripts: Readonly<Record<string, string>> = { bash, zsh, fish };
export const shells = Object.keys(completionScripts);

/** Suggests values for a placeholder such as APP, as lines of the form "value TAB description". */
export type SuggestValues = (
  placeholder: string,
  typed: string,
  words: readonly string[],
) => Promise<string[]>;

/**
 * Lines of the form "word TAB description" for the last of the words. The shell filters them by prefix. If none match,
 * it completes file names.
 */
export async function completionsFor(
  program: Program,
  words: readonly string[],
  suggestValues: SuggestValues,
): Promise<string[]> {
  const typed = words.at(-1) ?? '';
  const isHelp = words[0] === 'help';
  const before = words.slice(isHelp ? 1 : 0, -1);
  let command = program;
  let option: ProgramOption | undefined;
  let argumentCount = 0;
  for (const word of before) {
    if (option) option = undefined;
    else if (word.startsWith('-'))
      option = optionsOf(command).find(({ long, required }) => long === word && required);
    else {
      const child = command.commands.find((one) => one.name() === word);
      if (child) command = child;
      else argumentCount++;
    }
  }
  if (option) return option.argChoices ?? suggestValues(placeholderOf(option), typed, words);
  if (typed.startsWith('-')) return optionsOf(command).map(optionLine);
  const argument = command.registeredArguments[argumentCount];
  if (argument && isHelp) return [];
  if (argument) return argument.argChoices ?? suggestValues(argument.name(), typed, words);
  const children = command.createHelp().visibleCommands(command);
  return children.length > 0
    ? children.map((child) => `${child.name()}\t${child.summary() || child.description()}`)
    : optionsOf(command).map(optionLine);
}

/** The placeholder of an option, such as APP of `--app <APP>`. */
function placeholderOf({ flags }: ProgramOption): string {
  return /<(\w+)>/.exec(flags)?.[1] ?? '';
}

function optionsOf(command: Program): ProgramOption[] {
  const help = command.createHelp();
  const inherited = command.parent ? help.visibleGlobalOptions(command) : [];
  const helpOption = help.visibleOptions(command).filter(({ long }) => long === '--help');
  return [...command.options, ...inherited, ...helpOption];
}

function optionLine({ long, description }: ProgramOption): string {
  return `${long}\t${description.split('\n')[0]}`;
}
