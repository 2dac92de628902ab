/**
 * Leaves out what only describes: `.describe('…')` and `.meta({ … })` of a schema end up in the OpenAPI document,
 * which has tests of its own, and change nothing that the domain does.
 */
import { declareValuePlugin, PluginKind } from '@stryker-mutator/api/plugin';

const prose = {
  shouldIgnore({ node, parent }) {
    const called = parent?.type === 'CallExpression' && parent.arguments.includes(node) && parent.callee;
    const name = called && called.type === 'MemberExpression' && called.property.name;
    if (name === 'describe' || name === 'meta') return 'describes a schema in the OpenAPI document';
    return undefined;
  },
};

export const strykerPlugins = [declareValuePlugin(PluginKind.Ignore, 'prose', prose)];
