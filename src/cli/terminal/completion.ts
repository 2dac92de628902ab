/** Scripts that teach a shell to complete the command line, made from the table of commands. */
import { flagOf, settingList } from '../../config.ts';
import type { Command, Option } from '../command.ts';
import { UsageError } from '../errors.ts';
import { callOptions } from './connection.ts';

const scripts = { bash, zsh, fish };
export const shells = Object.keys(scripts);

export function completionScript(shell: string, commands: readonly Command[]): string {
  const script = Object.hasOwn(scripts, shell) ? scripts[shell as keyof typeof scripts] : undefined;
  if (!script) throw new UsageError(`SHELL must be one of ${shells.join(', ')}`);
  return script(commands);
}

interface Word {
  readonly word: string;
  readonly sentence: string;
}

/** What can stand behind the words of a command or of several: more words, or options; or behind an option. */
interface Place {
  readonly path: string;
  readonly words: readonly Word[];
  readonly options: readonly Option[];
  /** Whether a file can stand there. */
  readonly files?: boolean;
}

function places(commands: readonly Command[]): Place[] {
  const groups = [...new Set(commands.filter(({ words }) => words.length > 1).map(({ words }) => words[0]))];
  const below = (group: string) =>
    commands
      .filter(({ words }) => words[0] === group)
      .map(({ words, summary }) => ({ word: words[1] as string, sentence: summary }));
  const first = [
    ...groups.map((group) => ({
      word: group as string,
      sentence: below(group as string)
        .map(({ word }) => word)
        .join(', '),
    })),
    ...commands
      .filter(({ words }) => words.length === 1)
      .map(({ words, summary }) => ({ word: words[0] as string, sentence: summary })),
  ];
  const top = [...first, { word: 'help', sentence: 'Say more about a command.' }];
  return [
    { path: '', words: top, options: [help, { name: 'version', sentence: 'Print the version.' }] },
    { path: 'help', words: first, options: [] },
    ...groups.map((group) => ({ path: `help ${group}`, words: below(group as string), options: [] })),
    ...groups.map((group) => ({ path: group as string, words: below(group as string), options: [help] })),
    ...commands.map((command) => ({
      path: command.words.join(' '),
      words: argument(command),
      options: optionsOf(command),
      files: command.takes.includes('FILE'),
    })),
  ];
}

/** Where an option stands, and one of a few words is to follow. */
function choices(commands: readonly Command[]): Place[] {
  return commands.flatMap(({ words, options = [] }) =>
    options.flatMap(({ name, oneOf }) =>
      oneOf ? [{ path: `${words.join(' ')} --${name}`, words: oneOf.map(bare), options: [] }] : [],
    ),
  );
}

function bare(word: string): Word {
  return { word, sentence: '' };
}

const help: Option = { name: 'help', sentence: 'Say more.' };
const json: Option = { name: 'json', sentence: 'Print JSON for programs.' };

function optionsOf(command: Command): Option[] {
  const settings = settingList
    .filter(({ secret }) => !secret)
    .map(({ variable, sentence }) => ({ name: flagOf(variable), takes: 'VALUE', sentence }));
  return [...(command.options ?? []), ...('call' in command ? callOptions : settings), json, help];
}

function argument({ takes }: Command): Word[] {
  return takes[0] === 'SHELL' ? shells.map(bare) : [];
}

/** Options whose value is a name of a file, and those whose value is something else. */
function taking(commands: readonly Command[]) {
  const all = [...callOptions, ...commands.flatMap(({ options = [] }) => options)];
  const names = (some: readonly Option[]) => [...new Set(some.map(({ name }) => `--${name}`))];
  const files = names(all.filter(({ takes }) => takes === 'FILE' || takes === 'DIR'));
  const settings = settingList.filter(({ secret }) => !secret).map(({ variable }) => `--${flagOf(variable)}`);
  const rest = names(all.filter(({ takes }) => takes)).filter((name) => !files.includes(name));
  return { files, values: [...rest, ...settings] };
}

function flags(options: readonly Option[]): string[] {
  return options.map(({ name }) => `--${name}`);
}

/**
 * The words so far without options and their values, but for an option that waits for its value: as a shell
 * function that bash and zsh both read.
 */
function placeFunction(commands: readonly Command[]): string {
  const { files, values } = taking(commands);
  return `_sallyport_place() {
  local word option=
  place=
  for word in "$@"; do
    if [ -n "$option" ]; then option=; continue; fi
    case $word in
      ${[...files, ...values].join('|')}) option=$word ;;
      -*) ;;
      *) place="$place\${place:+ }$word" ;;
    esac
  done
  place="$place\${option:+ $option}"
}`;
}

function bash(commands: readonly Command[]): string {
  const { files } = taking(commands);
  const cases = [...places(commands), ...choices(commands)].map(
    ({ path, words, options }) =>
      `    '${path}') words='${[...words.map(({ word }) => word), ...flags(options)].join(' ')}' ;;`,
  );
  return `# In ~/.bashrc: eval "$(sallyport completion bash)"
${placeFunction(commands)}
_sallyport() {
  local place words='' current=\${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  case \${COMP_WORDS[COMP_CWORD - 1]} in
    ${files.join('|')}) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
  esac
  _sallyport_place "\${COMP_WORDS[@]:1:COMP_CWORD - 1}"
  case $place in
${cases.join('\n')}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _sallyport sallyport`;
}

function zsh(commands: readonly Command[]): string {
  const { files } = taking(commands);
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const cases = [...places(commands), ...choices(commands)].map(({ path, words, options }) => {
    const offered = [
      ...words.map(({ word, sentence }) => quote(`${word}:${sentence}`)),
      ...options.map(({ name, sentence }) => quote(`--${name}:${sentence}`)),
    ];
    return `    ${quote(path)}) offered=(\n      ${offered.join('\n      ')}\n    ) ;;`;
  });
  return `#compdef sallyport
# In ~/.zshrc, below compinit: eval "$(sallyport completion zsh)"
${placeFunction(commands)}
_sallyport() {
  local place
  local -a offered
  case $words[CURRENT-1] in
    ${files.join('|')}) _files; return ;;
  esac
  _sallyport_place "\${(@)words[2,CURRENT-1]}"
  case $place in
${cases.join('\n')}
  esac
  _describe sallyport offered || [[ $place == *' --'* ]] || _files
}
compdef _sallyport sallyport`;
}

function fish(commands: readonly Command[]): string {
  const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const { files, values } = taking(commands);
  const lines = places(commands).flatMap(({ path, words, options, files: named }) => {
    const here = `complete -c sallyport -n ${quote(`_sallyport_at ${quote(path)}`)}`;
    return [
      ...(named ? [`${here} -F`] : []),
      ...words.map(({ word, sentence }) => `${here} -a ${word} -d ${quote(sentence)}`),
      ...options.map(({ name, takes, oneOf, sentence }) => {
        const value = files.includes(`--${name}`) ? ' -r -F' : takes ? ' -x' : '';
        const words = oneOf ? ` -a ${quote(oneOf.join(' '))}` : '';
        return `${here} -l ${name}${value}${words} -d ${quote(sentence)}`;
      }),
    ];
  });
  return `# sallyport completion fish > ~/.config/fish/completions/sallyport.fish
function _sallyport_at
  set -l path
  set -l skip
  for word in (commandline -opc)[2..]
    if test -n "$skip"
      set skip
      continue
    end
    switch $word
      case ${[...files, ...values].join(' ')}
        set skip 1
      case '-*'
      case '*'
        set -a path $word
    end
  end
  test "$path" = "$argv[1]"
end
complete -c sallyport -f
${lines.join('\n')}`;
}
