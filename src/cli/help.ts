/** The layout of help pages. */
import { type Command, Help, type Option } from 'commander';

/** If the first column would be wider, descriptions are printed below the terms. */
const maxTermWidth = 32;

/** Usage, description, commands, then options. Commander prints options before commands. */
export function formatHelp(command: Command, helper: Help): string {
  const helpWidth = helper.helpWidth ?? 80;
  const width = helper.padWidth(command, helper);
  const list = (heading: string, items: readonly (readonly [term: string, description: string])[]) =>
    helper.formatItemList(
      heading,
      items.map(([term, description]) =>
        width > maxTermWidth
          ? describeBelow(term, description, helpWidth)
          : helper.formatItem(term, width, description, helper),
      ),
      helper,
    );
  const listOptions = (heading: string, options: readonly Option[]) =>
    list(
      heading,
      options.map((option) => [helper.optionTerm(option), helper.optionDescription(option)]),
    );
  const children = helper.visibleCommands(command);
  const groups = helper.groupItems([], children, (child) => child.helpGroup() || 'Commands:');
  const options = [...helper.visibleOptions(command), ...helper.visibleGlobalOptions(command)];
  const isGlobal = ({ long }: Option) => long === '--json' || long === '--help' || !command.parent;
  const own = options.filter((option) => !isGlobal(option) && option.long !== '--version');
  const ownGroups = helper.groupItems([], own, (option) => option.helpGroupHeading ?? 'Options:');
  return [
    `Usage: ${helper.commandUsage(command)}`,
    '',
    helper.boxWrap(helper.commandDescription(command), helpWidth),
    '',
    ...[...groups].flatMap(([heading, items]) =>
      list(
        heading,
        items.map((child) => [child.name(), helper.subcommandDescription(child)]),
      ),
    ),
    ...[...ownGroups].flatMap(([heading, items]) => listOptions(heading, items)),
    ...listOptions(command.parent ? 'Global options:' : 'Options:', options.filter(isGlobal)),
    ...(children.length > 0 ? [`Run \`${pathOf(command)} COMMAND --help\` for help on a command.`, ''] : []),
  ].join('\n');
}

/** The description wrapped and indented below the term. */
export function describeBelow(term: string, description: string, width: number): string {
  return `  ${term}\n${new Help().boxWrap(description, width - 6).replace(/^/gm, '      ')}`;
}

/** The command line up to this command, such as `sallyport apps list`. */
export function pathOf(program: Command): string {
  return program.parent ? `${pathOf(program.parent)} ${program.name()}` : program.name();
}
