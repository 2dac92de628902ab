/**
 * Ignores `.describe('…')` and `.meta({ … })` of schemas: they only affect the OpenAPI document, which has its own
 * tests.
 */
import { declareValuePlugin, PluginKind } from '@stryker-mutator/api/plugin';

const descriptions = {
  shouldIgnore({ node, parent }) {
    const called = parent?.type === 'CallExpression' && parent.arguments.includes(node) && parent.callee;
    const name = called && called.type === 'MemberExpression' && called.property.name;
    if (name === 'describe' || name === 'meta') return 'describes a schema in the OpenAPI document';
    return undefined;
  },
};

export const strykerPlugins = [declareValuePlugin(PluginKind.Ignore, 'descriptions', descriptions)];
